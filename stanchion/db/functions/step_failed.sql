-- purpose: a step has failed for good: record why, and tell its branch's joins, or end the run when no join would learn of it
-- transition: none (the caller moved it to failed)
-- fenced by: the caller
-- locks: the caller holds the step; then those that only it could have started
CREATE FUNCTION step_failed(s step, p_error jsonb, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_reason jsonb := jsonb_build_object('code', 'E-STEP-21', 'what', format('step %s failed', s.node), 'step', s.step_id, 'why', how_it_failed(s.step_id), 'error', p_error);
BEGIN
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepFailed', s.version, nullif(s.fence, 0), v_reason || jsonb_build_object('attempts', s.attempts));
  DELETE FROM timer t WHERE t.target_id = s.step_id;
  IF s.fan_id IS NULL OR (s.uncollected AND is_needed(s.fan_id, s.idx)) THEN
    o_arrivals := '{}';
    o_skipped := '{}';
    o_after := ARRAY[ROW(s.run_id, 0, v_reason, NULL, NULL)::aftermath];
    RETURN;
  END IF;
  SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM follow(s, 'bad', v_reason) x;
END $$;
