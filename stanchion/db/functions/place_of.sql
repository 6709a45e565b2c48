-- purpose: the branch in which a fan-out stands
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION place_of(p_fan uuid) RETURNS TABLE (fan_id uuid, idx int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.fan_id, s.idx FROM step s WHERE s.step_id = p_fan
$$;
