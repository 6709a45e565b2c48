-- purpose: all that a step comes after was skipped, so it is skipped as well
-- transition: barrier waiting -> released (with nothing included); held step pending -> skipped
-- fenced by: the caller
-- locks: the caller holds the barrier; then the held step
CREATE FUNCTION skip_held(b barrier) RETURNS arrival[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO barrier_release (tenant_id, barrier_id, included, at) VALUES (b.tenant_id, b.barrier_id, 0, clock());
  UPDATE barrier x SET state = 'released', version = x.version + 1, released_at = clock() WHERE x.barrier_id = b.barrier_id;
  INSERT INTO event (tenant_id, run_id, kind, version, body)
  VALUES (b.tenant_id, b.run_id, 'BarrierReleased', b.version + 1, jsonb_build_object('barrier', b.barrier_id, 'rule', b.rule, 'expected', b.expected, 'succeeded', 0, 'failed', 0, 'skipped', b.skipped));
  RETURN skip_step(b.step_id, b.run_id, jsonb_build_object('code', 'E-STEP-20', 'what', 'what it comes after was not chosen'), true);
END $$;
