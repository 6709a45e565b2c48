-- purpose: cancel those steps of some fan-outs that nobody holds and that wait for nothing but a worker, a retry or their expansion; what is about to send something again goes on
-- transition: step ready|retry_wait -> cancelled, or waiting for people; fan-out waiting -> cancelled before its first branch
-- fenced by: the step's state, looked at under its lock
-- locks: steps by id, skipping locked ones
CREATE FUNCTION cancel_pending(p_fans uuid[], p_limit int, p_reason jsonb) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ids uuid[] := ARRAY(
    SELECT s.step_id FROM step s WHERE s.fan_id = ANY (p_fans)
      AND (s.state IN ('ready', 'retry_wait') AND NOT EXISTS (SELECT FROM operation o WHERE o.step_id = s.step_id AND may_still_land(o)) OR (s.state = 'waiting' AND EXISTS (SELECT FROM timer t WHERE t.target_id = s.step_id AND t.kind IN ('expand', 'approval') AND (t.kind = 'approval' OR t.version = 0))))
    ORDER BY s.step_id LIMIT p_limit FOR NO KEY UPDATE OF s SKIP LOCKED);
BEGIN
  RETURN CASE WHEN v_ids = '{}' THEN v_ids ELSE cancel_steps(v_ids, p_reason) END;
END $$;
