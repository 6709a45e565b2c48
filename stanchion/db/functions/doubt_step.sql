-- purpose: a step whose operations are of unknown fate waits for a probe, whatever became of its attempt: the loss of a worker, an error or a shutdown in doubt costs no attempt
-- transition: step leased|running|reconciling -> unknown; its dispatched operations -> unknown
-- fenced by: the proof that the caller presents: the step's fence, -1 for an expired attempt, -2 for a run that winds down
-- locks: the caller holds the step
CREATE FUNCTION doubt_step(s step, p_proof bigint, p_actor text, p_delay_ms bigint, p_body jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  PERFORM doubt_operations(s.step_id, p_proof, p_actor);
  UPDATE step x SET state = 'unknown', version = x.version + 1, proof = p_proof, updated_at = v_now WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id RETURNING * INTO s;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepDoubted', s.version, s.fence, v_now, p_actor, p_body);
  DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind = 'probe';
  IF p_delay_ms = 0 THEN
    PERFORM make_ready(ARRAY[s.step_id]);
  ELSIF p_delay_ms > 0 THEN
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (s.tenant_id, 'probe', v_now + p_delay_ms * interval '1 ms', s.run_id, s.step_id, s.version);
  END IF;
END $$;
