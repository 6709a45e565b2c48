-- purpose: a probe is due: the step may be leased by whoever has its workflow, to ask what became of its operations
-- transition: none (lease moves it)
-- fenced by: the step being unknown, in the version that the timer names
-- locks: the step (skipped when locked: the timer stays due)
CREATE FUNCTION fire_probe(t timer) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN '{}'; END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  RETURN CASE WHEN s.state = 'unknown' AND s.version = t.version THEN ARRAY[s.step_id] ELSE '{}' END;
END $$;
