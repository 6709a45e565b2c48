-- purpose: a step did not start, or not end, in the time it was given; what runs ends with its lease, which is never renewed past the attempt's deadline
-- transition: step pending|ready|retry_wait -> failed
-- fenced by: the step's state
-- locks: the step (skipped when locked: the timer stays due), then those that only it could have started
CREATE FUNCTION fire_step_deadline(t timer, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  d record;
  v_error jsonb := CASE t.kind WHEN 'start_deadline' THEN jsonb_build_object('code', 'E-STEP-23', 'what', 'no worker took it in the time it was given')
    ELSE jsonb_build_object('code', 'E-STEP-23', 'what', 'its total time is over') END;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_settled := '{}';
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN; END IF;
  IF t.kind = 'step_deadline' AND (s.state IN ('leased', 'running', 'unknown', 'reconciling') OR s.expires_at > clock()) THEN
    -- it runs: its attempt ends at this deadline, and may leave it in a state that has to end; or it was reopened with a new time
    UPDATE timer x SET due_at = greatest(s.expires_at, clock() + interval '1 s') WHERE x.timer_id = t.timer_id;
    RETURN;
  END IF;
  IF t.kind = 'start_deadline' AND s.state = 'leased' AND NOT has_begun(s.step_id) THEN
    -- handed out, not begun: it may be given back
    UPDATE timer x SET due_at = clock() + interval '1 s' WHERE x.timer_id = t.timer_id;
    RETURN;
  END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  IF s.state NOT IN ('pending', 'ready', 'retry_wait') OR (t.kind = 'start_deadline' AND has_begun(s.step_id)) THEN RETURN; END IF;
  UPDATE step x SET state = 'failed', version = x.version + 1, updated_at = clock() WHERE x.step_id = t.target_id RETURNING * INTO s;
  DELETE FROM ready y WHERE y.step_id = s.step_id;
  SELECT * INTO d FROM step_failed(s, v_error);
  o_arrivals := d.o_arrivals;
  o_after := d.o_after;
  o_settled := s.step_id || d.o_skipped;
END $$;
