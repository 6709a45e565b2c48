-- purpose: a probe has settled all that was in doubt: the step goes on, with what is known in the ledger; or it ends, when its run does
-- transition: step reconciling -> ready|cancelled; attempt -> released|superseded
-- fenced by: the step's own fence
-- locks: the step, then the run (shared)
CREATE FUNCTION end_probe(p_worker uuid, p_step uuid, p_fence bigint) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  v_state text;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'end_probe');
  IF NOT FOUND OR s.state <> 'reconciling' OR s.doubts > 0 THEN RETURN false; END IF;
  v_state := go_on(s, s.fence, p_worker::text, NULL);
  UPDATE attempt t SET state = CASE v_state WHEN 'ready' THEN 'released' ELSE 'superseded' END, ended_at = clock() WHERE t.step_id = s.step_id AND t.fence = s.fence AND t.ended_at IS NULL;
  RETURN true;
END $$;
