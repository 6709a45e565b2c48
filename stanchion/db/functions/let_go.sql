-- purpose: let go what holds until someone reopens a failed step, once nobody waits for that any more: in the branches of a fan-out when no join over it holds, and (p_deep) in all that is inside them when none waits at all
-- transition: barrier waiting -> cancelled; what it holds, and what a failed step could have chosen, pending -> skipped
-- fenced by: the joins over the fan-out being decided
-- locks: barriers, the younger first, then the steps they hold
CREATE FUNCTION let_go(p_outer barrier, p_fans uuid[], p_deep boolean, OUT o_n int, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_over jsonb := jsonb_build_object('code', 'E-JOIN-23', 'what', 'the join was decided without it');
  v_failed jsonb := jsonb_build_object('code', 'E-JOIN-24', 'what', 'a step before it failed, and nobody waits for that to be reopened');
  v_own boolean;
  x record;
  v_target uuid;
  d record;
BEGIN
  o_n := 0;
  o_arrivals := '{}';
  o_after := '{}';
  o_skipped := '{}';
  FOR x IN
    SELECT b AS b, s.fan_id FROM step s, barrier b WHERE s.fan_id = ANY (p_fans) AND s.state = 'pending' AND b.step_id = s.step_id AND b.barrier_id <> p_outer.barrier_id
      AND b.state = 'waiting' AND b.on_failed = 'hold' AND b.failed > 0 AND (p_deep OR b.kind = 'after') ORDER BY b.barrier_id DESC FOR NO KEY UPDATE OF b
  LOOP
    -- a branch whose own step failed has failed; one that an inner join held was left over
    v_own := (x.b).kind = 'after' AND x.fan_id = p_outer.fan_id;
    PERFORM cancel_barriers(ARRAY[(x.b).barrier_id]);
    SELECT * INTO d FROM skip_step((x.b).step_id, CASE WHEN v_own THEN v_failed ELSE v_over END, v_own);
    o_n := o_n + 1;
    o_arrivals := o_arrivals || d.o_arrivals;
    o_after := o_after || d.o_after;
    o_skipped := o_skipped || d.o_skipped;
    IF (x.b).kind = 'gather' AND (x.b).succeeded + (x.b).failed + (x.b).skipped >= (x.b).expected THEN o_after := o_after || close_barrier(x.b); END IF;
  END LOOP;
  FOR x IN SELECT s.fan_id, s.chooses FROM step s WHERE s.fan_id = ANY (p_fans) AND s.state = 'failed' AND s.chooses IS NOT NULL ORDER BY s.step_id LOOP
    v_own := x.fan_id = p_outer.fan_id;
    FOREACH v_target IN ARRAY x.chooses LOOP
      SELECT * INTO d FROM skip_step(v_target, CASE WHEN v_own THEN v_failed ELSE v_over END, v_own);
      o_n := o_n + cardinality(d.o_skipped);
      o_arrivals := o_arrivals || d.o_arrivals;
      o_after := o_after || d.o_after;
      o_skipped := o_skipped || d.o_skipped;
    END LOOP;
  END LOOP;
END $$;
