-- purpose: a pending step never runs; what waits for it learns that, and a failure outside any fan-out ends the run
-- transition: step pending -> skipped
-- fenced by: the caller
-- locks: the step, then (through wind_down or settle_runs) its run
CREATE FUNCTION skip_step(p_step uuid, p_run uuid, p_reason jsonb, p_neutral boolean) RETURNS arrival[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  UPDATE step x SET state = 'skipped', version = x.version + 1, updated_at = clock() WHERE x.step_id = p_step AND x.state = 'pending' RETURNING * INTO s;
  IF FOUND THEN
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepSkipped', s.version, p_reason);
  END IF;
  IF NOT p_neutral AND (p_step IS NULL OR s.fan_id IS NULL) THEN
    -- a join without a step behind it, or one outside any fan-out: nothing above could collect the failure
    PERFORM wind_down(p_run, 'failed', p_reason, 'engine');
    RETURN '{}';
  END IF;
  IF s.step_id IS NULL THEN RETURN '{}'; END IF;
  IF s.counts THEN PERFORM settle_runs(ARRAY[s.run_id]); END IF;
  RETURN arrivals_of(s, CASE WHEN p_neutral THEN 'skipped' ELSE 'bad' END);
END $$;
