-- purpose: a pending step never runs; what waits for it learns that, and a failure outside any fan-out ends the run
-- transition: step pending -> skipped, and in turn those that only it could have started
-- fenced by: the step's state: one that is not pending any more was decided before
-- locks: the step, then those that only it could have started
CREATE FUNCTION skip_step(p_step uuid, p_reason jsonb, p_spoiled boolean, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  v_counts aftermath[] := '{}';
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_skipped := '{}';
  UPDATE step x SET state = 'skipped', version = x.version + 1, spoiled = p_spoiled, updated_at = clock() WHERE x.step_id = p_step AND x.state = 'pending' RETURNING * INTO s;
  IF NOT FOUND THEN
    SELECT * INTO s FROM step x WHERE x.step_id = p_step;
    IF p_spoiled AND s.fan_id IS NULL THEN o_after := ARRAY[ROW(s.run_id, 0, p_reason, NULL, NULL)::aftermath]; END IF;
    RETURN;
  END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepSkipped', s.version, p_reason || jsonb_strip_nulls(jsonb_build_object('spoiled', nullif(p_spoiled, false))));
  IF p_spoiled AND s.fan_id IS NULL THEN
    -- outside any fan-out nothing above could collect the failure
    o_after := ARRAY[ROW(s.run_id, 0, p_reason, NULL, NULL)::aftermath];
    RETURN;
  END IF;
  IF s.counts THEN v_counts := ARRAY[ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath]; END IF;
  SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM follow(s, CASE WHEN p_spoiled THEN 'bad' ELSE 'skipped' END, p_reason) x;
  o_after := v_counts || o_after;
  o_skipped := s.step_id || o_skipped;
END $$;
