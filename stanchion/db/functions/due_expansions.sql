-- purpose: fan-outs that wait for their next branches: of each run its oldest before the second of any, so that a run with thousands of them keeps no other waiting
-- transition: none
-- fenced by: nothing; expand decides
-- locks: none
CREATE FUNCTION due_expansions(p_limit int) RETURNS TABLE (tenant_id uuid, run_id uuid, fan_id uuid, next_index int, node text, workflow text, workflow_version int, outer_fan uuid, idx int, round int, sources uuid[], feeds uuid[], input jsonb, input_blob bytea, retry_of uuid, priority int)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH RECURSIVE oldest AS MATERIALIZED (
    SELECT t.target_id, t.version, t.due_at, t.run_id FROM timer t
    WHERE t.kind = 'expand' AND t.due_at <= (SELECT clock()) AND t.target_id <> ALL ((SELECT aside('expansion'))::uuid[]) AND (SELECT r.state IN ('created', 'running') FROM run r WHERE r.run_id = t.run_id) ORDER BY t.due_at LIMIT p_limit * 5
  ), runs(run_id, n) AS (
    -- from run to run, one index probe each: those behind a run that has more of them than the window above
    (SELECT t.run_id, 1 FROM timer t WHERE t.kind = 'expand' AND (SELECT count(*) FROM oldest) = p_limit * 5 ORDER BY t.run_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.run_id FROM timer t WHERE t.kind = 'expand' AND t.run_id > r.run_id ORDER BY t.run_id LIMIT 1), r.n + 1 FROM runs r WHERE r.run_id IS NOT NULL AND r.n < p_limit * 5
  ), others AS MATERIALIZED (
    SELECT x.* FROM runs, LATERAL (
      SELECT t.target_id, t.version, t.due_at, t.run_id FROM timer t
      WHERE t.kind = 'expand' AND t.run_id = runs.run_id AND t.due_at <= (SELECT clock()) AND t.target_id <> ALL ((SELECT aside('expansion'))::uuid[]) AND (SELECT r.state IN ('created', 'running') FROM run r WHERE r.run_id = t.run_id) ORDER BY t.due_at LIMIT 1) x
  ), d AS MATERIALIZED (
    SELECT c.*, row_number() OVER (PARTITION BY c.run_id ORDER BY c.due_at, c.target_id) AS turn FROM (SELECT * FROM oldest UNION SELECT * FROM others) c ORDER BY turn, c.due_at LIMIT p_limit
  )
  -- a limit keeps each look-up one index probe a row: joined freely, it was planned from all steps
  SELECT s.tenant_id, s.run_id, s.step_id, d.version::int, s.node, s.workflow, s.workflow_version, s.fan_id, s.idx, s.round, s.sources, s.feeds, s.input, s.input_blob, r.retry_of, r.priority
  FROM d, LATERAL (SELECT x.* FROM step x WHERE x.step_id = d.target_id LIMIT 1) s,
    LATERAL (SELECT x.retry_of, (SELECT k.priority::int FROM task k WHERE k.task_id = x.task_id AND k.tenant_id = x.tenant_id) AS priority FROM run x WHERE x.run_id = s.run_id AND x.tenant_id = s.tenant_id LIMIT 1) r
  ORDER BY d.turn, d.due_at
$$;
