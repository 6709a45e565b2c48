-- purpose: a step did not start, or not end, in the time it was given; what runs ends with its lease, which is never renewed past the attempt's deadline
-- transition: step pending|ready|retry_wait -> failed
-- fenced by: the step's state
-- locks: the step (skipped when locked: the timer stays due), then what it feeds
CREATE FUNCTION fire_step_deadline(t timer) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN; END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  UPDATE step x SET state = 'failed', version = x.version + 1, updated_at = clock() WHERE x.step_id = t.target_id AND x.state IN ('pending', 'ready', 'retry_wait') RETURNING * INTO s;
  IF NOT FOUND THEN RETURN; END IF;
  DELETE FROM ready y WHERE y.step_id = s.step_id;
  PERFORM spread(step_failed(s, jsonb_build_object('code', 'E-STEP-23', 'what', 'it did not start in the time it was given')), '{}');
END $$;
