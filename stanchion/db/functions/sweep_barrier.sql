-- purpose: after a join was decided: once no join over its fan-out waits and none says rest=finish, cancel the branches that have not started (those that run may finish, late); once none that holds waits, let go what held for a reopening
-- transition: step ready|retry_wait -> cancelled, fan-out waiting -> cancelled before its first branch; what only these could have started -> skipped
-- fenced by: the joins over the fan-out being decided, which none of them takes back
-- locks: an advisory lock on the barrier's sweep; steps that hold nothing, by id (skipping locked ones), then slots, barriers and held steps as any arrival
CREATE FUNCTION sweep_barrier(p_barrier uuid, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_began timestamptz := clock_timestamp();
  v_reason jsonb := jsonb_build_object('code', 'E-JOIN-23', 'what', 'the join was decided without it');
  b barrier;
  s step;
  d record;
  v_over boolean;
  v_holding boolean;
  v_fans uuid[];
  v_ids uuid[] := '{}';
  v_done uuid[] := '{}';
  v_n int;
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('sweep:' || p_barrier::text, 0)) THEN RETURN 0; END IF;
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.kind = 'gather' AND x.state <> 'waiting' AND (NOT x.closed OR x.sweep_at IS NOT NULL);
  IF NOT FOUND THEN RETURN 0; END IF;
  -- a branch that one join did without may be what another one waits for
  SELECT bool_and(x.state <> 'waiting' AND x.rest <> 'finish'), bool_or(x.state = 'waiting' AND x.on_failed = 'hold') INTO v_over, v_holding FROM barrier x WHERE x.fan_id = b.fan_id AND x.step_id IS NOT NULL;
  v_fans := ARRAY[b.fan_id];
  IF v_over THEN
    WITH RECURSIVE f(id) AS (SELECT b.fan_id UNION ALL SELECT x.step_id FROM f, step x WHERE x.fan_id = f.id AND x.kind = 'fan') SELECT array_agg(f.id) INTO v_fans FROM f;
    -- pending steps follow from those before them, in the lock order of any arrival
    v_ids := cancel_pending(v_fans, p_limit, v_reason);
    v_after := withdraw_approvals(v_ids, v_reason);
  END IF;
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) ORDER BY x.step_id LOOP
    IF s.counts THEN v_after := v_after || ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath; END IF;
    SELECT * INTO d FROM follow(s, 'skipped', v_reason);
    v_arrivals := v_arrivals || d.o_arrivals;
    v_after := v_after || d.o_after;
  END LOOP;
  v_n := cardinality(v_ids);
  IF v_n = 0 AND NOT v_holding AND EXISTS (SELECT FROM barrier x WHERE x.fan_id = ANY (v_fans) AND x.on_failed = 'hold') THEN
    SELECT x.o_n, x.o_arrivals, x.o_after, x.o_skipped INTO v_n, v_arrivals, v_after, v_done FROM let_go(b, v_fans, v_over) x;
  END IF;
  PERFORM spread(v_arrivals, v_done, v_after);
  IF v_n = 0 THEN
    -- what is left runs, or another join waits for it: the look at a large fan-out takes a tenth of the time at most
    UPDATE barrier x SET sweep_at = CASE WHEN NOT x.closed OR EXISTS (SELECT FROM barrier o WHERE o.fan_id = x.fan_id AND NOT o.closed)
      THEN clock() + CASE WHEN v_over THEN least(greatest((clock_timestamp() - v_began) * 10, interval '100 ms'), interval '2 s') ELSE interval '2 s' END END
    WHERE x.barrier_id = p_barrier AND (NOT x.closed OR x.sweep_at IS NOT NULL);
  END IF;
  RETURN v_n;
END $$;
