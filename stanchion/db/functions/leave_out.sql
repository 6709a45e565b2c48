-- purpose: a join was opened without branches in which a step had failed: what these branches still waited for never runs
-- transition: step pending -> skipped; barrier waiting -> cancelled
-- fenced by: the caller opened the join
-- locks: the caller holds the join; then the pending steps, then other joins over the same fan-out
CREATE FUNCTION leave_out(b barrier, p_branches int[]) RETURNS aftermath[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_reason jsonb := jsonb_build_object('code', 'E-JOIN-24', 'what', 'the join was opened without its branch');
  s step;
  d record;
  v_ready uuid[];
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
BEGIN
  FOR s IN SELECT x.* FROM step x WHERE x.fan_id = b.fan_id AND x.idx = ANY (p_branches) AND x.state = 'pending' ORDER BY x.step_id LOOP
    PERFORM cancel_barriers(ARRAY(SELECT x.barrier_id FROM barrier x WHERE x.step_id = s.step_id AND x.kind = 'after' AND x.state = 'waiting'));
    SELECT * INTO d FROM skip_step(s.step_id, v_reason, true);
    v_arrivals := v_arrivals || ARRAY(SELECT a FROM unnest(d.o_arrivals) a WHERE a.barrier_id <> b.barrier_id);
    v_after := v_after || d.o_after;
  END LOOP;
  SELECT v_after || x.o_after, x.o_ready INTO v_after, v_ready FROM arrive(v_arrivals, '{}') x;
  PERFORM make_ready(v_ready);
  RETURN v_after;
END $$;
