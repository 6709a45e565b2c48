-- purpose: a join's time is over and its rule does not hold
-- transition: barrier waiting -> failed
-- fenced by: the barrier's state
-- locks: the barrier, then what it holds
CREATE FUNCTION fire_barrier_deadline(t timer) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
BEGIN
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = t.target_id AND x.state = 'waiting' FOR NO KEY UPDATE;
  IF FOUND THEN PERFORM spread(fail_barrier(b, 'its deadline passed'), '{}'); END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
END $$;
