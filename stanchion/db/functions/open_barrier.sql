-- purpose: open a join that failed branches hold, without them, by a person's decision and for a reason
-- transition: barrier waiting -> released; the step it holds pending -> ready
-- fenced by: the release row's primary key
-- locks: the barrier, then pending steps of branches that stand still, the held step, the fan-out, the run; the audit chain last
CREATE FUNCTION open_barrier(p_tenant uuid, p_barrier uuid, p_reason text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  v_unsettled int;
  v_all boolean;
  v_held int[];
  v_ready uuid;
  v_after aftermath[];
BEGIN
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such barrier'; END IF;
  IF b.state <> 'waiting' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-JOIN-22 the barrier is %s', b.state); END IF;
  IF b.on_failed <> 'hold' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-JOIN-22 the barrier waits for no decision: its failed children don''t hold it'; END IF;
  v_unsettled := b.expected - b.succeeded - b.failed - b.skipped;
  -- branches that stand still since a step before the joined one has failed
  v_held := ARRAY(SELECT DISTINCT s.idx FROM step s WHERE s.fan_id = b.fan_id AND s.state = 'failed' AND p_barrier <> ALL (coalesce(s.feeds, '{}'))
    AND NOT EXISTS (SELECT FROM step x WHERE x.fan_id = s.fan_id AND x.idx = s.idx AND (x.state IN ('ready', 'leased', 'running', 'retry_wait', 'waiting', 'unknown', 'reconciling')
      OR (p_barrier = ANY (x.feeds) AND x.replaced_by IS NULL AND x.state IN ('succeeded', 'failed', 'cancelled', 'skipped')))));
  IF v_unsettled > cardinality(v_held) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-JOIN-22 %s of %s children have not settled: only failed ones can be left out', v_unsettled - cardinality(v_held), b.expected);
  END IF;
  v_all := v_unsettled = 0;
  -- it opens with these as failed, whatever becomes of them; its row goes on counting what settles
  b.failed := b.failed + v_unsettled;
  UPDATE step s SET failed_for = coalesce(s.failed_for, '{}') || jsonb_build_object(p_barrier, (SELECT error_of(x.step_id) FROM step x WHERE x.fan_id = s.fan_id AND x.idx = s.idx AND x.state = 'failed' ORDER BY x.updated_at LIMIT 1))
  WHERE s.fan_id = b.fan_id AND s.idx = ANY (v_held) AND p_barrier = ANY (s.feeds) AND s.replaced_by IS NULL AND s.state = 'pending';
  SELECT x.o_ready, x.o_after INTO v_ready, v_after FROM release_barrier(b) x;
  -- what these branches still wait for is let go by the sweep, once no join that holds waits for them
  IF v_all THEN v_after := v_after || close_barrier(b); END IF;
  IF v_ready IS NOT NULL THEN PERFORM make_ready(ARRAY[v_ready]); END IF;
  PERFORM conclude(v_after);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'barrier.open', p_barrier::text, jsonb_build_object('reason', p_reason, 'without', b.failed));
  RETURN true;
END $$;
