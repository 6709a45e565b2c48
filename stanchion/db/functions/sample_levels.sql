-- purpose: what stands at this moment, by tenant: ready steps and the age of the oldest, steps that run, open approvals, operations of unknown fate
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION sample_levels() RETURNS TABLE (tenant_id uuid, name text, value float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH now AS MATERIALIZED (SELECT clock() AS at), r AS MATERIALIZED (
    SELECT y.tenant_id, y.queue, count(*)::float8 AS n, min(y.since) AS since FROM ready y GROUP BY 1, 2
  ), a AS MATERIALIZED (
    SELECT o.tenant_id, (SELECT s.queue FROM step s WHERE s.step_id = o.step_id AND s.tenant_id = o.tenant_id) AS queue, count(*)::float8 AS n FROM attempt o WHERE o.ended_at IS NULL GROUP BY 1, 2
  ), p AS MATERIALIZED (
    SELECT o.tenant_id, count(*)::float8 AS n, min(o.created_at) AS since FROM approval o WHERE o.state = 'requested' GROUP BY 1
  ), u AS MATERIALIZED (
    SELECT o.tenant_id, count(*)::float8 AS n, min(o.unknown_since) AS since FROM operation o WHERE o.state = 'unknown' GROUP BY 1
  ), s(tenant_id, name, n, since) AS (
    SELECT r.tenant_id, 'ready', sum(r.n), min(r.since) FROM r GROUP BY 1 UNION ALL SELECT r.tenant_id, 'ready:' || r.queue, r.n, r.since FROM r
    UNION ALL SELECT p.tenant_id, 'approvals', p.n, p.since FROM p UNION ALL SELECT u.tenant_id, 'unknown', u.n, u.since FROM u
  )
  SELECT s.tenant_id, CASE WHEN s.name = 'approvals' THEN 'approvals_open' WHEN s.name = 'unknown' THEN 'operations_in_doubt' ELSE replace(s.name, 'ready', 'ready_steps') END, s.n FROM s
  UNION ALL
  SELECT s.tenant_id, CASE WHEN s.name = 'approvals' THEN 'approvals_age_seconds' WHEN s.name = 'unknown' THEN 'operations_age_seconds' ELSE replace(s.name, 'ready', 'ready_age_seconds') END, greatest(extract(epoch FROM now.at - s.since), 0)::float8 FROM s, now
  UNION ALL
  SELECT a.tenant_id, 'steps_running', sum(a.n) FROM a GROUP BY 1
  UNION ALL
  SELECT a.tenant_id, 'steps_running:' || a.queue, a.n FROM a WHERE a.queue IS NOT NULL
$$;
