-- purpose: the steps of some branches of a fan-out of the run before, for the plan of a retried run: what stands for which node, and what it was given
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION branches_before(p_tenant uuid, p_fan uuid, p_first int, p_upto int) RETURNS TABLE (idx int, node text, step_id uuid, state text, round int, input jsonb, input_blob bytea, replaced boolean, own boolean)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.idx, coalesce(s.answers, s.node), s.step_id, CASE WHEN s.state = 'succeeded' AND has_lapsed(s.tenant_id, s.step_id) THEN 'lapsed' ELSE s.state END, s.round, s.input, s.input_blob, s.replaced_by IS NOT NULL, s.answers IS NULL OR s.answers = s.node
  FROM step s WHERE s.fan_id = p_fan AND s.idx >= p_first AND s.idx < p_upto AND s.tenant_id = p_tenant
$$;
