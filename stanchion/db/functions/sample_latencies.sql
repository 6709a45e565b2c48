-- purpose: how long attempts that ended in a span of time waited for their grant and ran, by tenant: median and 95th percentile of some hundred of them
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION sample_latencies(p_from timestamptz, p_to timestamptz, p_most int) RETURNS TABLE (tenant_id uuid, name text, value float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH ended AS MATERIALIZED (
    SELECT x.* FROM (
      -- in an order that has nothing to do with time: the first hundreds of a busy span are not like the rest
      SELECT e.tenant_id, e.step_id, e.fence, row_number() OVER (PARTITION BY e.tenant_id ORDER BY hashint8(e.event_id)) AS n
      FROM event e WHERE e.at >= p_from AND e.at < p_to AND e.kind IN ('StepSucceeded', 'StepFailed', 'StepRetryScheduled') AND e.fence IS NOT NULL) x
    WHERE x.n <= p_most
  ), took AS MATERIALIZED (
    SELECT e.tenant_id, extract(epoch FROM a.granted_at - a.ready_at)::float8 AS waited, extract(epoch FROM a.ended_at - a.started_at)::float8 AS ran
    FROM ended e CROSS JOIN LATERAL (SELECT t.* FROM attempt t WHERE t.step_id = e.step_id AND t.fence = e.fence AND t.tenant_id = e.tenant_id) a
  ), both_ends AS (
    SELECT t.tenant_id, percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY t.waited) AS waited, percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY t.ran) AS ran FROM took t GROUP BY 1
  )
  SELECT b.tenant_id, x.name, x.value FROM both_ends b, LATERAL (VALUES
    ('queue_wait_seconds_p50', b.waited[1]), ('queue_wait_seconds_p95', b.waited[2]), ('step_seconds_p50', b.ran[1]), ('step_seconds_p95', b.ran[2])) x(name, value)
  WHERE x.value IS NOT NULL
$$;
