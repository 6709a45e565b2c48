-- purpose: fan-outs that wait for their next branches, oldest first
-- transition: none
-- fenced by: nothing; expand decides
-- locks: none
CREATE FUNCTION due_expansions(p_limit int) RETURNS TABLE (tenant_id uuid, run_id uuid, fan_id uuid, next_index int, node text, workflow text, workflow_version int, outer_fan uuid, idx int, round int, sources uuid[], feeds uuid[], input jsonb, input_blob bytea, retry_of uuid, priority int)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.tenant_id, s.run_id, s.step_id, t.version::int, s.node, s.workflow, s.workflow_version, s.fan_id, s.idx, s.round, s.sources, s.feeds, s.input, s.input_blob, r.retry_of, (SELECT k.priority FROM task k WHERE k.task_id = r.task_id AND k.tenant_id = r.tenant_id)
  FROM timer t JOIN step s ON s.step_id = t.target_id JOIN run r ON r.run_id = s.run_id
  WHERE t.kind = 'expand' AND t.due_at <= (SELECT clock()) AND r.state IN ('created', 'running') ORDER BY t.due_at LIMIT p_limit
$$;
