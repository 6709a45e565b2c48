-- purpose: the holder ends its attempt, or its probing, without knowing what became of an operation: the next probe is due later, or a person has to tell
-- transition: step leased|running|reconciling -> unknown; attempt -> failed (it does not count), or released after a probe
-- fenced by: the step's own fence
-- locks: the step, then its operations
CREATE FUNCTION end_in_doubt(p_worker uuid, p_step uuid, p_fence bigint, p_error jsonb, p_delay_ms bigint) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'end_in_doubt');
  IF NOT FOUND OR s.doubts = 0 THEN RETURN false; END IF;
  UPDATE attempt t SET state = CASE s.state WHEN 'reconciling' THEN 'released' ELSE 'failed' END, ended_at = clock(), counted = false, error = p_error, started_at = coalesce(t.started_at, t.granted_at)
  WHERE t.step_id = s.step_id AND t.fence = s.fence AND t.ended_at IS NULL;
  PERFORM doubt_step(s, s.fence, p_worker::text, p_delay_ms, jsonb_build_object('error', p_error));
  RETURN true;
END $$;
