-- purpose: a fan-out that waits for nothing is opened as soon as it is planned
-- transition: fan-out pending -> waiting
-- fenced by: the caller
-- locks: the fan-out's step
CREATE FUNCTION open_fan(p_fan uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  UPDATE step x SET state = 'waiting', version = x.version + 1, updated_at = clock() WHERE x.step_id = p_fan AND x.state = 'pending' RETURNING * INTO STRICT s;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version) VALUES (s.tenant_id, s.run_id, s.step_id, 'FanOpened', s.version);
  PERFORM ask_to_expand(s);
END $$;
