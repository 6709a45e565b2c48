-- purpose: what happened in a span of time, by tenant: counts of events by kind, of queues what became ready and what was leased, and refused writes
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION sample_counts(p_from timestamptz, p_to timestamptz) RETURNS TABLE (tenant_id uuid, name text, value float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH happened AS MATERIALIZED (
    SELECT e.tenant_id, e.kind, x.queue, count(*) AS n
    FROM event e
    -- a scalar subquery is one index probe a row, and only for what is told by queue
    CROSS JOIN LATERAL (SELECT CASE WHEN e.kind IN ('StepLeased', 'StepReady', 'StepReleased', 'StepLost', 'StepReopened', 'StepSettled') THEN (SELECT s.queue FROM step s WHERE s.step_id = e.step_id AND s.tenant_id = e.tenant_id) END AS queue) x
    WHERE e.at >= p_from AND e.at < p_to
    GROUP BY 1, 2, 3
  ), named(kind, name) AS (VALUES
    ('TaskAccepted', 'tasks_submitted'), ('TaskCompleted', 'tasks_completed'), ('TaskFailed', 'tasks_failed'), ('TaskCancelled', 'tasks_cancelled'), ('TaskRejected', 'tasks_rejected'),
    ('StepLeased', 'steps_leased'), ('StepSucceeded', 'steps_succeeded'), ('StepFailed', 'steps_failed'), ('StepRetryScheduled', 'steps_failed'), ('StepRetryScheduled', 'steps_retried'), ('StepLost', 'leases_reaped'),
    ('StepReady', 'steps_made_ready'), ('StepReleased', 'steps_made_ready'), ('StepLost', 'steps_made_ready'), ('StepReopened', 'steps_made_ready'), ('StepSettled', 'steps_made_ready'),
    ('OperationConfirmed', 'operations_confirmed'), ('OperationUnknown', 'operations_unknown'))
  SELECT h.tenant_id, d.name, sum(h.n)::float8 FROM happened h JOIN named d ON d.kind = h.kind GROUP BY 1, 2
  UNION ALL
  SELECT h.tenant_id, d.name || ':' || h.queue, sum(h.n)::float8 FROM happened h JOIN named d ON d.kind = h.kind WHERE d.name IN ('steps_leased', 'steps_made_ready') AND h.queue IS NOT NULL GROUP BY 1, 2
  UNION ALL
  SELECT w.tenant_id, 'steps_refused', count(*)::float8 FROM refused_write w WHERE w.at >= p_from AND w.at < p_to GROUP BY 1
$$;
