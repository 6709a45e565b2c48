-- purpose: a join's time is over and its rule does not hold
-- transition: barrier waiting -> failed
-- fenced by: the barrier's state
-- locks: the barrier, then what it holds
CREATE FUNCTION fire_barrier_deadline(t timer) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  d record;
BEGIN
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = t.target_id AND x.state = 'waiting' FOR NO KEY UPDATE;
  IF FOUND THEN
    SELECT * INTO d FROM fail_barrier(b, 'its deadline passed');
    -- all may have settled already, when failed children held it
    IF b.slots = 0 AND b.succeeded + b.failed + b.skipped >= b.expected THEN d.o_after := d.o_after || close_barrier(b); END IF;
    PERFORM spread(d.o_arrivals, d.o_skipped, d.o_after);
  END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
END $$;
