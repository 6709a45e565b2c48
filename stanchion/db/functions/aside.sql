-- purpose: what no batch of this kind takes in for now
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION aside(p_kind text) RETURNS uuid[] LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT ARRAY(SELECT x.target_id FROM set_aside x WHERE x.kind = p_kind AND x.retry_at > clock())
$$;
