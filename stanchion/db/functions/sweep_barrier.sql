-- purpose: after a join was decided: with rest=cancel cancel the branches that have not started, those that run may finish, late; let go what held for a reopening
-- transition: step ready|retry_wait -> cancelled, fan-out waiting -> cancelled before its first branch; what only these could have started -> skipped
-- fenced by: the barrier being decided
-- locks: an advisory lock on the barrier's sweep; steps that hold nothing, by id (skipping locked ones), then slots, barriers and held steps as any arrival
CREATE FUNCTION sweep_barrier(p_barrier uuid, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_began timestamptz := clock_timestamp();
  v_reason jsonb := jsonb_build_object('code', 'E-JOIN-23', 'what', 'the join was decided without it');
  b barrier;
  s step;
  d record;
  v_fans uuid[];
  v_ids uuid[] := '{}';
  v_n int;
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('sweep:' || p_barrier::text, 0)) THEN RETURN 0; END IF;
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.kind = 'gather' AND x.state <> 'waiting' AND NOT x.closed;
  IF NOT FOUND THEN RETURN 0; END IF;
  WITH RECURSIVE f(id) AS (SELECT b.fan_id UNION ALL SELECT x.step_id FROM f, step x WHERE x.fan_id = f.id AND x.kind = 'fan') SELECT array_agg(f.id) INTO v_fans FROM f;
  -- pending steps follow from those before them, in the lock order of any arrival
  IF b.rest = 'cancel' THEN v_ids := cancel_pending(v_fans, p_limit, v_reason); END IF;
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) ORDER BY x.step_id LOOP
    IF s.counts THEN v_after := v_after || ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath; END IF;
    SELECT * INTO d FROM follow(s, 'skipped', v_reason);
    v_arrivals := v_arrivals || d.o_arrivals;
    v_after := v_after || d.o_after;
  END LOOP;
  v_n := cardinality(v_ids);
  IF v_n = 0 AND EXISTS (SELECT FROM barrier x WHERE x.fan_id = ANY (v_fans) AND x.on_failed = 'hold') THEN
    SELECT x.o_n, x.o_arrivals, x.o_after INTO v_n, v_arrivals, v_after FROM let_go(p_barrier, v_fans, v_reason) x;
  END IF;
  PERFORM spread(v_arrivals, '{}', v_after);
  -- what is left runs: the look at a large fan-out takes a tenth of the time at most
  IF v_n = 0 THEN UPDATE barrier x SET sweep_at = clock() + least(greatest((clock_timestamp() - v_began) * 10, interval '100 ms'), interval '2 s') WHERE x.barrier_id = p_barrier; END IF;
  RETURN v_n;
END $$;
