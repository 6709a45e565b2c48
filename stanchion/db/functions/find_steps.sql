-- purpose: the steps of a scope's instance by their nodes' names: for the planner, and for a worker whose step chooses another
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION find_steps(p_tenant uuid, p_run uuid, p_fan uuid, p_idx int, p_nodes text[]) RETURNS TABLE (node text, step_id uuid, round int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT coalesce(s.answers, s.node), s.step_id, s.round FROM step s
  WHERE p_fan IS NOT NULL AND s.fan_id = p_fan AND s.idx = p_idx AND s.tenant_id = p_tenant AND coalesce(s.answers, s.node) = ANY (p_nodes) AND s.replaced_by IS NULL
  UNION ALL
  SELECT coalesce(s.answers, s.node), s.step_id, s.round FROM step s
  WHERE p_fan IS NULL AND s.run_id = p_run AND s.fan_id IS NULL AND s.tenant_id = p_tenant AND coalesce(s.answers, s.node) = ANY (p_nodes) AND s.replaced_by IS NULL
  ORDER BY 3
$$;
