-- purpose: start the step that was chosen with its input, and skip the other targets; without a choice all are skipped
-- transition: step pending -> ready (chosen) or skipped (the others)
-- fenced by: the caller holds the choosing step
-- locks: the targets in the order of the graph
CREATE FUNCTION choose(s step, p_chosen jsonb, OUT o_arrivals arrival[], OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_target uuid;
  v_now timestamptz := clock();
  t step;
  d record;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  FOREACH v_target IN ARRAY s.chooses LOOP
    UPDATE step x SET state = 'ready', version = x.version + 1, waits = 0, input = nullif(p_chosen->'input', 'null'), input_blob = decode(p_chosen->>'input_blob', 'hex'), updated_at = v_now, expires_at = v_now + x.total_ms * interval '1 ms'
    WHERE x.step_id = v_target AND x.node = p_chosen->>'node' AND x.state = 'pending' RETURNING * INTO t;
    IF FOUND THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version) VALUES (t.tenant_id, t.run_id, t.step_id, 'StepReady', t.version);
      PERFORM make_ready(ARRAY[t.step_id]);
    ELSE
      SELECT * INTO d FROM skip_step(v_target, jsonb_build_object('code', 'E-STEP-20', 'what', 'another step was chosen'), false);
      o_arrivals := o_arrivals || d.o_arrivals;
      o_after := o_after || d.o_after;
    END IF;
  END LOOP;
END $$;
