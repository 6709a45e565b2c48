-- purpose: record that attempts failed: another attempt after a delay while the budget lasts, else the step has failed
-- transition: step leased|running -> retry_wait|failed, or unknown; attempt -> failed
-- fenced by: each step's own fence; a stale member of the batch is refused, recorded, and harms no other
-- locks: steps by id, then slots, barriers, held steps, runs, tasks
CREATE FUNCTION fail(p_worker uuid, p_steps uuid[], p_fences bigint[], p_errors jsonb[], p_final boolean[], p_delays_ms bigint[])
RETURNS TABLE (step_id uuid, state text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  s step;
  i int;
  v_done uuid[] := '{}';
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
  v_settled uuid[] := '{}';
  v_fresh boolean;
  v_over boolean;
  v_final boolean;
  v_x record;
BEGIN
  PERFORM FROM step x WHERE x.step_id = ANY (p_steps) ORDER BY x.step_id FOR NO KEY UPDATE;
  v_now := clock();
  v_done := set_aside_doubtful(p_worker, p_steps, p_fences, p_errors, 0);
  RETURN QUERY SELECT d, 'unknown' FROM unnest(v_done) d;
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (p_steps) ORDER BY x.step_id LOOP
    i := array_position(p_steps, s.step_id);
    CONTINUE WHEN s.fence <> p_fences[i] OR s.state NOT IN ('leased', 'running') OR s.step_id = ANY (v_done);
    v_done := v_done || s.step_id;
    v_fresh := s.state = 'leased';
    -- another attempt must still be able to begin within the step's total time
    v_over := coalesce(s.expires_at <= v_now + p_delays_ms[i] * interval '1 ms', false);
    v_final := p_final[i] OR v_over OR s.attempts + 1 >= s.max_attempts;
    UPDATE attempt t SET state = 'failed', ended_at = v_now, counted = true, error = p_errors[i], started_at = coalesce(t.started_at, t.granted_at)
    WHERE t.step_id = s.step_id AND t.fence = s.fence;
    step_id := s.step_id;
    state := CASE WHEN v_final THEN 'failed' ELSE 'retry_wait' END;
    UPDATE step x SET state = CASE WHEN v_final THEN 'failed' ELSE 'retry_wait' END,
      version = x.version + 1, attempts = x.attempts + 1, proof = s.fence, updated_at = v_now WHERE x.step_id = s.step_id RETURNING * INTO s;
    IF v_fresh THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepStarted', s.version, s.fence, v_now);
    END IF;
    IF s.state = 'retry_wait' THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
      VALUES (s.tenant_id, s.run_id, s.step_id, 'StepRetryScheduled', s.version, s.fence, v_now, jsonb_build_object('error', p_errors[i], 'delay_ms', p_delays_ms[i], 'attempts', s.attempts));
      INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (s.tenant_id, 'retry', v_now + p_delays_ms[i] * interval '1 ms', s.run_id, s.step_id, s.version);
    ELSE
      SELECT * INTO v_x FROM step_failed(s, p_errors[i] || CASE WHEN v_over AND NOT p_final[i] THEN '{"over": "its total time"}' ELSE '{}' END::jsonb);
      v_arrivals := v_arrivals || v_x.o_arrivals;
      v_after := v_after || v_x.o_after;
      v_settled := v_settled || s.step_id || v_x.o_skipped;
    END IF;
    RETURN NEXT;
  END LOOP;
  PERFORM spread(v_arrivals, v_settled, v_after);
  IF cardinality(v_done) < cardinality(p_steps) THEN
    RETURN QUERY SELECT d, CASE WHEN (SELECT y.state FROM step y WHERE y.step_id = d) = 'failed' THEN 'failed' ELSE 'retry_wait' END FROM unnest(refuse(p_worker, p_steps, p_fences, v_done, 'fail', 'failed')) d;
  END IF;
END $$;
