-- purpose: what answers for a node of a run: of each branch the step of the newest round that stands for it and has a result, in the order of the branches from the outermost inwards; its fan-outs are looked for as fan_in does
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION answers_of(p_tenant uuid, p_run uuid, p_node text, p_scope text[], p_limit int) RETURNS TABLE (step_id uuid, path int[], body jsonb, blob bytea) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH RECURSIVE f(fan_id, path, depth) AS (
    SELECT NULL::uuid, '{}'::int[], 0
    UNION ALL
    SELECT n.step_id, CASE WHEN f.depth > 0 THEN f.path || n.idx ELSE f.path END, f.depth + 1
    FROM f, LATERAL (
      SELECT DISTINCT ON (s.idx) s.idx, s.step_id FROM step s
      WHERE (s.fan_id = f.fan_id OR (f.fan_id IS NULL AND s.run_id = p_run AND s.fan_id IS NULL)) AND s.tenant_id = p_tenant AND s.kind = 'fan' AND s.node = p_scope[f.depth + 1]
      ORDER BY s.idx, s.round DESC, s.step_id DESC) n
    WHERE f.depth < cardinality(p_scope)
  ), a AS (
    SELECT n.step_id, f.path || n.idx AS path FROM f, LATERAL (
      SELECT DISTINCT ON (s.idx) s.idx, s.step_id, s.state FROM step s
      WHERE (s.fan_id = f.fan_id OR (f.fan_id IS NULL AND s.run_id = p_run AND s.fan_id IS NULL)) AND s.tenant_id = p_tenant AND s.kind = 'step' AND coalesce(s.answers, s.node) = p_node AND s.replaced_by IS NULL
      ORDER BY s.idx, s.round DESC, s.step_id DESC) n
    WHERE f.depth = cardinality(p_scope) AND n.state = 'succeeded' ORDER BY 2 LIMIT p_limit
  )
  SELECT a.step_id, a.path, r.body, r.blob FROM a, LATERAL (SELECT x.body, x.blob FROM result x WHERE x.step_id = a.step_id AND x.tenant_id = p_tenant LIMIT 1) r ORDER BY a.path
$$;
