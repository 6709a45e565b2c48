-- purpose: open a barrier: the release row makes it once, the step it holds waits for one thing less
-- transition: barrier waiting -> released; held step pending -> ready, or pending -> waiting for a fan-out, which the planner expands
-- fenced by: the release row's primary key
-- locks: the caller holds the barrier; then the held step
CREATE FUNCTION release_barrier(b barrier, OUT o_ready uuid, OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_counts jsonb := jsonb_build_object('rule', b.rule, 'expected', b.expected, 'succeeded', b.succeeded, 'failed', b.failed, 'skipped', b.skipped);
  s step;
BEGIN
  o_after := '{}';
  INSERT INTO barrier_release (tenant_id, barrier_id, included, failed, skipped, at) VALUES (b.tenant_id, b.barrier_id, b.succeeded, b.failed, b.skipped, v_now);
  UPDATE barrier x SET state = 'released', version = x.version + 1, released_at = v_now WHERE x.barrier_id = b.barrier_id;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) VALUES (b.tenant_id, b.run_id, 'BarrierReleased', b.version + 1, v_now, v_counts || jsonb_build_object('barrier', b.barrier_id));
  IF b.kind = 'gather' THEN
    DELETE FROM timer t WHERE t.target_id = b.barrier_id AND b.deadline_at IS NOT NULL;
    IF b.step_id IS NOT NULL THEN
      o_after := ARRAY[ROW(b.run_id, 0, NULL, 'BarrierReleased', v_counts || jsonb_build_object('barrier_id', b.barrier_id, 'step_id', b.step_id, 'node', b.node))::aftermath];
    END IF;
  END IF;
  UPDATE step x SET waits = x.waits - 1, updated_at = v_now, version = x.version + CASE WHEN x.waits = 1 THEN 1 ELSE 0 END,
    state = CASE WHEN x.waits > 1 THEN 'pending' WHEN x.kind = 'fan' THEN 'waiting' ELSE 'ready' END,
    expires_at = CASE WHEN x.waits = 1 THEN v_now + x.total_ms * interval '1 ms' END
  WHERE x.step_id = b.step_id AND x.state = 'pending' RETURNING * INTO s;
  IF NOT FOUND OR s.state = 'pending' THEN RETURN; END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at) VALUES (s.tenant_id, s.run_id, s.step_id, CASE s.state WHEN 'ready' THEN 'StepReady' ELSE 'FanOpened' END, s.version, v_now);
  IF s.state = 'ready' THEN o_ready := s.step_id; ELSE PERFORM ask_to_expand(s); END IF;
END $$;
