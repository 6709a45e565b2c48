-- purpose: keep a run from ending while what was just inserted into it is committed; refused when it has ended
-- transition: none
-- fenced by: the run's row lock: whoever ends a run looks for open steps under it
-- locks: the run
CREATE FUNCTION hold_run(p_run uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM FROM run r WHERE r.run_id = p_run AND r.ended_at IS NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-CONFLICT-01 the run has ended meanwhile'; END IF;
END $$;
