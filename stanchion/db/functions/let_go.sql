-- purpose: branches of a decided join wait for nobody's decision: what holds in them until someone reopens a failed step is let go
-- transition: barrier waiting -> cancelled; what it holds, and what a failed step could have chosen, pending -> skipped
-- fenced by: the outer join being decided
-- locks: barriers by id, then the steps they hold
CREATE FUNCTION let_go(p_outer uuid, p_fans uuid[], p_reason jsonb, OUT o_n int, OUT o_arrivals arrival[], OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_held uuid[] := ARRAY(SELECT x.barrier_id FROM step s, barrier x WHERE s.fan_id = ANY (p_fans) AND s.state = 'pending' AND x.step_id = s.step_id AND x.barrier_id <> p_outer
    AND x.state = 'waiting' AND x.on_failed = 'hold' AND x.failed > 0);
  v_choosers uuid[] := ARRAY(SELECT s.step_id FROM step s WHERE s.fan_id = ANY (p_fans) AND s.state = 'failed' AND s.chooses IS NOT NULL);
  b barrier;
  s step;
  d record;
BEGIN
  o_n := 0;
  o_arrivals := '{}';
  o_after := '{}';
  FOR b IN SELECT x.* FROM barrier x WHERE x.barrier_id = ANY (v_held) AND x.state = 'waiting' ORDER BY x.barrier_id DESC FOR NO KEY UPDATE LOOP
    PERFORM cancel_barriers(ARRAY[b.barrier_id]);
    SELECT * INTO d FROM skip_step(b.step_id, p_reason, false);
    o_n := o_n + 1;
    o_arrivals := o_arrivals || d.o_arrivals;
    o_after := o_after || d.o_after;
    IF b.kind = 'gather' AND b.succeeded + b.failed + b.skipped >= b.expected THEN o_after := o_after || close_barrier(b); END IF;
  END LOOP;
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_choosers) ORDER BY x.step_id LOOP
    SELECT * INTO d FROM choose(s, NULL);
    o_n := o_n + cardinality(d.o_arrivals);
    o_arrivals := o_arrivals || d.o_arrivals;
    o_after := o_after || d.o_after;
  END LOOP;
END $$;
