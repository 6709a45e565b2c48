-- purpose: the error that a step ended with: of its last attempt that has one
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION error_of(p_step uuid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT a.error FROM attempt a WHERE a.step_id = p_step AND a.error IS NOT NULL ORDER BY a.fence DESC LIMIT 1
$$;
