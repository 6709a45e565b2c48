-- purpose: the joins over a fan-out, by the node that they are named for
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION gathers_of(p_fan uuid) RETURNS TABLE (barrier_id uuid, node text) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.barrier_id, b.node FROM barrier b WHERE b.fan_id = p_fan AND b.kind = 'gather'
$$;
