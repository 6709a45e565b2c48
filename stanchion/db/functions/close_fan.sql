-- purpose: all branches of a fan-out have settled at one of its joins; when it was the last join, the fan-out itself is over
-- transition: fan-out waiting -> succeeded
-- fenced by: the caller
-- locks: the caller holds the barrier; then the fan-out's step
CREATE FUNCTION close_fan(b barrier) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  -- the fan-out's row orders two joins that close at the same moment
  PERFORM FROM step x WHERE x.step_id = b.fan_id FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM barrier x WHERE x.fan_id = b.fan_id AND NOT x.closed) THEN RETURN NULL; END IF;
  UPDATE step x SET state = 'succeeded', version = x.version + 1, updated_at = clock() WHERE x.step_id = b.fan_id AND x.state = 'waiting' RETURNING * INTO s;
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version) VALUES (s.tenant_id, s.run_id, s.step_id, 'FanClosed', s.version);
  RETURN s.run_id;
END $$;
