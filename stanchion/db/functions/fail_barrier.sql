-- purpose: a barrier that can't open any more fails; so does what it holds, or the whole run when no join further out would learn of it
-- transition: barrier waiting -> failed; held step pending -> skipped
-- fenced by: the caller
-- locks: the caller holds the barrier; then the held step
CREATE FUNCTION fail_barrier(b barrier, p_why text, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_reason jsonb := jsonb_build_object('code', 'E-JOIN-20', 'what', format('the join before %s failed: %s', b.node, p_why), 'barrier', b.barrier_id);
  v_error jsonb := (SELECT error_of(s.step_id) - 'traceback' FROM step s WHERE b.kind = 'gather' AND s.fan_id = b.fan_id AND s.state = 'failed' ORDER BY s.idx LIMIT 1);
BEGIN
  -- one of the failures that it was for: people look for the cause where they see the end
  IF v_error IS NOT NULL THEN v_reason := v_reason || jsonb_build_object('error', v_error); END IF;
  UPDATE barrier x SET state = 'failed', version = x.version + 1 WHERE x.barrier_id = b.barrier_id;
  DELETE FROM timer t WHERE t.target_id = b.barrier_id AND b.deadline_at IS NOT NULL;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) VALUES (b.tenant_id, b.run_id, 'BarrierFailed', b.version + 1, v_now,
    v_reason || jsonb_build_object('succeeded', b.succeeded, 'failed', b.failed, 'skipped', b.skipped));
  SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM skip_step(b.step_id, v_reason, true) x;
  IF b.kind = 'gather' THEN
    o_after := o_after || ROW(b.run_id, 0, NULL, 'BarrierFailed', jsonb_build_object('barrier_id', b.barrier_id, 'step_id', b.step_id, 'node', b.node, 'rule', b.rule, 'expected', b.expected, 'succeeded', b.succeeded,
      'failed', b.failed, 'code', 'E-JOIN-20', 'why', p_why))::aftermath;
    IF EXISTS (SELECT FROM step s WHERE s.step_id = b.step_id AND s.uncollected AND is_needed(s.fan_id, s.idx)) THEN o_after := o_after || ROW(b.run_id, 0, v_reason, NULL, NULL)::aftermath; END IF;
  END IF;
END $$;
