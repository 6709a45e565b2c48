-- purpose: a step is to be cancelled that was about to send something again: what it sent before is asked after first
-- transition: operation prepared -> unknown; step ready|retry_wait -> unknown
-- fenced by: the run being in cancelling (the canceller); a held step by its own fence
-- locks: the caller holds the step; its operations
CREATE FUNCTION doubt_unsent(s step, p_reason jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int := leave_in_doubt(s, 'canceller', p_reason);
BEGIN
  IF s.state IN ('leased', 'running') THEN
    UPDATE step x SET doubts = x.doubts + v_n, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
    RETURN;
  END IF;
  DELETE FROM ready y WHERE y.step_id = s.step_id;
  DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind IN ('retry', 'start_deadline', 'step_deadline');
  UPDATE step x SET state = 'unknown', doubts = v_n, version = x.version + 1, updated_at = v_now WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id RETURNING * INTO s;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepDoubted', s.version, v_now, 'canceller', p_reason);
  PERFORM make_ready(ARRAY[s.step_id]);
END $$;
