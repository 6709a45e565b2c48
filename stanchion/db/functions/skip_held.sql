-- purpose: all that a step comes after was skipped: so is the step, unless a fan-out that it joins brings something
-- transition: barrier waiting -> released (with nothing included); held step pending -> skipped, or ready when it was the last of what it waits for
-- fenced by: the release row's primary key
-- locks: the caller holds the barrier; then the held step
CREATE FUNCTION skip_held(b barrier, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  INSERT INTO barrier_release (tenant_id, barrier_id, included, failed, skipped, at) VALUES (b.tenant_id, b.barrier_id, 0, 0, b.skipped, v_now);
  UPDATE barrier x SET state = 'released', version = x.version + 1, released_at = v_now WHERE x.barrier_id = b.barrier_id;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body)
  VALUES (b.tenant_id, b.run_id, 'BarrierReleased', b.version + 1, v_now, jsonb_build_object('barrier', b.barrier_id, 'rule', b.rule, 'expected', b.expected, 'succeeded', 0, 'failed', 0, 'skipped', b.skipped));
  SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM pass_over(b.step_id, jsonb_build_object('code', 'E-STEP-20', 'what', 'what it comes after was not chosen')) x;
END $$;
