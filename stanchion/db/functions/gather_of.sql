-- purpose: the join that a step reads; of a further round of a joining step it is the one that its first round waited for
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION gather_of(j step, p_fan uuid) RETURNS SETOF barrier LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.* FROM barrier b WHERE b.fan_id = p_fan AND b.kind = 'gather' AND b.step_id IS NOT NULL AND b.node = j.node AND b.tenant_id = j.tenant_id
$$;
