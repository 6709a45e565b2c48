-- purpose: open a join that failed branches hold, without them, by a person's decision and for a reason
-- transition: barrier waiting -> released; the step it holds pending -> ready; what the held branches still waited for pending -> skipped
-- fenced by: the release row's primary key
-- locks: the barrier, then the held steps, then the fan-out, the run
CREATE FUNCTION open_barrier(p_tenant uuid, p_barrier uuid, p_reason text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  v_unsettled int;
  v_held int[];
  v_ready uuid;
  v_after aftermath[];
BEGIN
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such barrier'; END IF;
  IF b.state <> 'waiting' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-JOIN-22 the barrier is %s', b.state); END IF;
  IF b.on_failed <> 'hold' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-JOIN-22 the barrier waits for no decision: its failed children don''t hold it'; END IF;
  v_unsettled := b.expected - b.succeeded - b.failed - b.skipped;
  -- branches in which a step before the joined one has failed
  v_held := ARRAY(SELECT DISTINCT s.idx FROM step s WHERE s.fan_id = b.fan_id AND s.state = 'failed' AND p_barrier <> ALL (coalesce(s.feeds, '{}'))
    AND NOT EXISTS (SELECT FROM step x WHERE x.fan_id = s.fan_id AND x.idx = s.idx AND p_barrier = ANY (x.feeds) AND x.replaced_by IS NULL AND x.state IN ('succeeded', 'failed', 'cancelled', 'skipped')));
  IF v_unsettled > cardinality(v_held) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-JOIN-22 %s of %s children have not settled: only failed ones can be left out', v_unsettled - cardinality(v_held), b.expected);
  END IF;
  IF v_unsettled > 0 THEN
    UPDATE barrier x SET failed = x.failed + v_unsettled WHERE x.barrier_id = p_barrier RETURNING * INTO b;
  END IF;
  SELECT x.o_ready, x.o_after INTO v_ready, v_after FROM release_barrier(b) x;
  IF v_unsettled > 0 THEN v_after := v_after || leave_out(b, v_held); END IF;
  v_after := v_after || close_barrier(b);
  IF v_ready IS NOT NULL THEN PERFORM make_ready(ARRAY[v_ready]); END IF;
  PERFORM conclude(v_after);
  -- last: an entry holds the audit log until the end, and nobody may wait for a run behind it
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'barrier.open', p_barrier::text, jsonb_build_object('reason', p_reason, 'without', b.failed));
  RETURN true;
END $$;
