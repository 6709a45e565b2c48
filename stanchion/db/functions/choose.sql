-- purpose: start the step that was chosen with its input, and skip the alternatives
-- transition: step pending -> ready (chosen) or skipped (the others)
-- fenced by: the caller holds the choosing step
-- locks: the targets by id
CREATE FUNCTION choose(s step, p_chosen jsonb) RETURNS arrival[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  x step;
  v_out arrival[] := '{}';
  v_ready uuid[];
BEGIN
  FOR x IN SELECT t.* FROM step t WHERE t.step_id = ANY (ARRAY(SELECT jsonb_array_elements_text(p_chosen->'targets')::uuid)) AND t.state = 'pending' ORDER BY t.step_id FOR NO KEY UPDATE LOOP
    IF x.node = p_chosen->>'node' THEN
      UPDATE step t SET state = 'ready', version = t.version + 1, waits = 0, input = p_chosen->'input', updated_at = clock() WHERE t.step_id = x.step_id RETURNING * INTO x;
      INSERT INTO event (tenant_id, run_id, step_id, kind, version) VALUES (x.tenant_id, x.run_id, x.step_id, 'StepReady', x.version);
      v_ready := v_ready || x.step_id;
    ELSE
      v_out := v_out || skip_step(x.step_id, x.run_id, jsonb_build_object('code', 'E-STEP-20', 'what', 'another step was chosen'), true);
    END IF;
  END LOOP;
  PERFORM make_ready(v_ready);
  RETURN v_out;
END $$;
