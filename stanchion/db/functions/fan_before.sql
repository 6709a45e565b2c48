-- purpose: in a retried run, the fan-out of a run before that stands where this one does and has the branch that is asked for; the newest, since a run may have ended before it made its branches
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION fan_before(p_fan uuid, p_first int, OUT o_fan uuid, OUT o_run uuid) LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
BEGIN
  SELECT r.retry_of INTO o_run FROM step s, run r WHERE s.step_id = p_fan AND r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
  WHILE o_run IS NOT NULL LOOP
    o_fan := fan_in(o_run, p_fan);
    IF EXISTS (SELECT FROM step s WHERE s.fan_id = o_fan AND s.idx = p_first) THEN RETURN; END IF;
    SELECT r.retry_of INTO o_run FROM run r WHERE r.run_id = o_run;
  END LOOP;
  o_fan := NULL;
END $$;
