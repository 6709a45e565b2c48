-- purpose: all branches have settled at a join; when it was the last join of its fan-out, the fan-out itself is over
-- transition: fan-out waiting -> succeeded
-- fenced by: the caller
-- locks: the caller holds the barrier; then the fan-out's step
CREATE FUNCTION close_barrier(b barrier) RETURNS aftermath[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  UPDATE barrier x SET closed = true, sweep_at = NULL WHERE x.barrier_id = b.barrier_id;
  -- the fan-out's row orders two joins that close at the same moment
  PERFORM FROM step x WHERE x.step_id = b.fan_id FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM barrier x WHERE x.fan_id = b.fan_id AND NOT x.closed) THEN
    -- what it held and another join still waits for is let go by the sweep
    UPDATE barrier x SET sweep_at = clock() WHERE x.barrier_id = b.barrier_id AND x.on_failed = 'hold';
    RETURN '{}';
  END IF;
  UPDATE step x SET state = 'succeeded', version = x.version + 1, updated_at = clock() WHERE x.step_id = b.fan_id AND x.state = 'waiting' RETURNING * INTO s;
  IF NOT FOUND THEN RETURN '{}'; END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version) VALUES (s.tenant_id, s.run_id, s.step_id, 'FanClosed', s.version);
  RETURN ARRAY[ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath];
END $$;
