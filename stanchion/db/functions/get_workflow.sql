-- purpose: the graph of a workflow's version, or of its newest one
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION get_workflow(p_name text, p_version int) RETURNS TABLE (version int, graph jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT w.version, w.graph FROM workflow w WHERE w.name = p_name AND (p_version IS NULL OR w.version = p_version) ORDER BY w.version DESC LIMIT 1
$$;
