-- purpose: cancel only those steps that have not started, looked at under their locks
-- transition: step pending|ready|retry_wait -> cancelled
-- fenced by: nothing: nobody holds them
-- locks: steps by id, skipping locked ones
CREATE FUNCTION cancel_pending(p_steps uuid[], p_reason jsonb) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ids uuid[];
BEGIN
  SELECT array_agg(x.step_id) INTO v_ids FROM (SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND s.state IN ('pending', 'ready', 'retry_wait') ORDER BY s.step_id FOR NO KEY UPDATE SKIP LOCKED) x;
  RETURN CASE WHEN v_ids IS NULL THEN '{}' ELSE cancel_steps(v_ids, p_reason) END;
END $$;
