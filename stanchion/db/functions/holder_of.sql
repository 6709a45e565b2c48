-- purpose: the step that an attempt holds, locked until commit; nothing when the attempt is not its holder any more, which is then on record
-- transition: none
-- fenced by: the step's own fence
-- locks: the step
CREATE FUNCTION holder_of(p_worker uuid, p_step uuid, p_fence bigint, p_attempted text) RETURNS SETOF step LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT s.* FROM step s WHERE s.step_id = p_step AND s.fence = p_fence AND s.state IN ('leased', 'running', 'reconciling') FOR NO KEY UPDATE;
  IF NOT FOUND THEN PERFORM refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], '{}', p_attempted, 'none'); END IF;
END $$;
