-- purpose: a step's retry delay is over
-- transition: step retry_wait -> ready
-- fenced by: the version at which the delay was set
-- locks: the step (skipped when locked: the timer stays due)
CREATE FUNCTION fire_retry(t timer) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN '{}'; END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  UPDATE step x SET state = 'ready', version = x.version + 1, updated_at = clock() WHERE x.step_id = t.target_id AND x.state = 'retry_wait' AND x.version = t.version RETURNING * INTO s;
  IF NOT FOUND THEN RETURN '{}'; END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, actor) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepReady', s.version, 'timer');
  RETURN ARRAY[s.step_id];
END $$;
