-- purpose: what should be due for a run and is not: retries, probes, expansions, deadlines of steps, approvals, joins and the task
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION missing_timers(p_run uuid) RETURNS TABLE (tenant_id uuid, kind text, target_id uuid, due_at timestamptz, version bigint) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH w AS (
    SELECT s.tenant_id, 'retry' AS kind, s.step_id AS target_id, coalesce((SELECT e.at + (e.body->>'delay_ms')::bigint * interval '1 ms' FROM event e
      WHERE e.run_id = p_run AND e.step_id = s.step_id AND e.kind = 'StepRetryScheduled' AND e.version = s.version LIMIT 1), clock()) AS due_at, s.version
    FROM step s WHERE s.run_id = p_run AND s.state = 'retry_wait'
    UNION ALL
    SELECT s.tenant_id, 'probe', s.step_id, clock(), s.version FROM step s WHERE s.run_id = p_run AND s.state = 'unknown' AND NOT EXISTS (SELECT FROM ready y WHERE y.step_id = s.step_id)
      AND EXISTS (SELECT FROM operation o WHERE o.step_id = s.step_id AND o.state = 'unknown' AND o.unknown_since > clock() - interval '1 day')
    UNION ALL
    -- branches are inserted in order of their index, so the highest tells how far it came; without a join it has not begun
    SELECT s.tenant_id, 'expand', s.step_id, clock(), x.next FROM step s,
      LATERAL (SELECT coalesce((SELECT c.idx + 1 FROM step c WHERE c.fan_id = s.step_id ORDER BY c.idx DESC LIMIT 1), 0)::bigint AS next, (SELECT max(b.expected) FROM barrier b WHERE b.fan_id = s.step_id AND b.kind = 'gather') AS total) x
    WHERE s.run_id = p_run AND s.kind = 'fan' AND s.state = 'waiting' AND (x.total IS NULL OR x.next < x.total)
    UNION ALL
    SELECT s.tenant_id, 'start_deadline', s.step_id, s.updated_at + s.start_within_ms * interval '1 ms', NULL FROM step s WHERE s.run_id = p_run AND s.state = 'ready' AND s.fence = 0 AND s.start_within_ms IS NOT NULL
    UNION ALL
    SELECT s.tenant_id, 'step_deadline', s.step_id, s.expires_at, NULL FROM step s WHERE s.run_id = p_run AND s.state IN ('ready', 'retry_wait') AND s.expires_at IS NOT NULL
    UNION ALL
    SELECT s.tenant_id, 'approval', s.step_id, a.expires_at, NULL FROM step s JOIN approval a ON a.step_id = s.step_id AND a.fence = s.fence WHERE s.run_id = p_run AND s.kind = 'step' AND s.state = 'waiting'
    UNION ALL
    SELECT b.tenant_id, 'barrier_deadline', b.barrier_id, b.deadline_at, NULL FROM barrier b WHERE b.run_id = p_run AND b.state = 'waiting' AND b.deadline_at IS NOT NULL
    UNION ALL
    SELECT t.tenant_id, 'task_deadline', t.task_id, t.deadline_at, NULL FROM run r, task t WHERE r.run_id = p_run AND r.state IN ('created', 'running') AND t.task_id = r.task_id AND t.run_id = p_run AND t.ended_at IS NULL AND t.deadline_at IS NOT NULL
  )
  SELECT w.* FROM w WHERE NOT EXISTS (SELECT FROM timer t WHERE t.target_id = w.target_id AND t.kind = w.kind AND (w.kind NOT IN ('retry', 'probe') OR t.version = w.version))
$$;
