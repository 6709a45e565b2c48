-- purpose: record that attempts failed: another attempt after a delay while the budget lasts, else the step has failed
-- transition: step leased|running -> retry_wait|failed; attempt -> failed
-- fenced by: each step's own fence; a stale member of the batch is refused, recorded, and harms no other
-- locks: steps by id, then slots, barriers, held steps, runs, tasks
CREATE FUNCTION fail(p_worker uuid, p_steps uuid[], p_fences bigint[], p_errors jsonb[], p_final boolean[], p_delays_ms int[])
RETURNS TABLE (step_id uuid, state text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  s step;
  i int;
  v_done uuid[] := '{}';
  v_arrivals arrival[] := '{}';
BEGIN
  PERFORM FROM step x WHERE x.step_id = ANY (p_steps) ORDER BY x.step_id FOR NO KEY UPDATE;
  v_now := clock();
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (p_steps) ORDER BY x.step_id LOOP
    i := array_position(p_steps, s.step_id);
    CONTINUE WHEN s.fence <> p_fences[i] OR s.state NOT IN ('leased', 'running');
    v_done := v_done || s.step_id;
    UPDATE attempt t SET state = 'failed', ended_at = v_now, counted = true, error = p_errors[i], started_at = coalesce(t.started_at, t.granted_at)
    WHERE t.step_id = s.step_id AND t.fence = s.fence;
    step_id := s.step_id;
    state := CASE WHEN p_final[i] OR s.attempts + 1 >= s.max_attempts THEN 'failed' ELSE 'retry_wait' END;
    UPDATE step x SET state = CASE WHEN p_final[i] OR s.attempts + 1 >= s.max_attempts THEN 'failed' ELSE 'retry_wait' END,
      version = x.version + 1, attempts = x.attempts + 1, proof = s.fence, updated_at = v_now WHERE x.step_id = s.step_id RETURNING * INTO s;
    IF s.state = 'retry_wait' THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
      VALUES (s.tenant_id, s.run_id, s.step_id, 'StepRetryScheduled', s.version, s.fence, v_now, jsonb_build_object('error', p_errors[i], 'delay_ms', p_delays_ms[i]));
      INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (s.tenant_id, 'retry', v_now + p_delays_ms[i] * interval '1 ms', s.run_id, s.step_id, s.version);
    ELSE
      v_arrivals := v_arrivals || step_failed(s, p_errors[i]);
    END IF;
    RETURN NEXT;
  END LOOP;
  PERFORM spread(v_arrivals, v_done);
  IF cardinality(v_done) < cardinality(p_steps) THEN
    PERFORM refuse(p_worker, ARRAY(SELECT u FROM unnest(p_steps) u WHERE u <> ALL (v_done)),
      ARRAY(SELECT p_fences[x.n] FROM unnest(p_steps) WITH ORDINALITY x(u, n) WHERE x.u <> ALL (v_done) ORDER BY x.n), 'fail');
  END IF;
END $$;
