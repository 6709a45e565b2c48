-- purpose: open a barrier that failed children hold, without them, by a person's decision and for a reason
-- transition: barrier waiting -> released; held step pending -> ready
-- fenced by: the release row's primary key
-- locks: slots, then the barrier, then the held step
CREATE FUNCTION open_barrier(p_tenant uuid, p_barrier uuid, p_reason text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  v_ready uuid;
  v_unsettled int;
BEGIN
  PERFORM FROM barrier_slot l WHERE l.barrier_id = p_barrier ORDER BY l.slot FOR NO KEY UPDATE;
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such barrier in this tenant'; END IF;
  IF b.state <> 'waiting' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-JOIN-22 the barrier is %s', b.state); END IF;
  v_unsettled := CASE WHEN b.slots > 0 THEN (SELECT sum(l.remaining) FROM barrier_slot l WHERE l.barrier_id = p_barrier) ELSE b.expected - b.succeeded - b.skipped END;
  IF b.on_failed <> 'hold' OR v_unsettled > b.failed THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-JOIN-22 %s of %s children have not settled: only failed ones can be left out', v_unsettled - b.failed, b.expected);
  END IF;
  UPDATE barrier_slot l SET remaining = 0 WHERE l.barrier_id = p_barrier;
  UPDATE barrier x SET slots_left = 0, closed = true, succeeded = x.expected - x.failed - x.skipped WHERE x.barrier_id = p_barrier RETURNING * INTO b;
  v_ready := release_barrier(b);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'barrier.open', p_barrier::text, jsonb_build_object('reason', p_reason, 'without', b.failed));
  IF v_ready IS NOT NULL THEN PERFORM make_ready(ARRAY[v_ready]); END IF;
  PERFORM settle_runs(array_remove(ARRAY[close_fan(b)], NULL));
  RETURN true;
END $$;
