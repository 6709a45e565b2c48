-- purpose: whether a failed step holds its branch: its fan-out's joins hold for failed branches, and one of them still waits
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION is_held(s step) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.holds AND EXISTS (SELECT FROM barrier b WHERE b.fan_id = s.fan_id AND b.on_failed = 'hold' AND b.state = 'waiting')
$$;
