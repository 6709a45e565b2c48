-- purpose: bring one barrier's counts up to date and decide: open, fail, close, or go on waiting
-- transition: barrier waiting -> released|failed; fan-out waiting -> succeeded when all its barriers are closed
-- fenced by: the caller
-- locks: the barrier, then the step it holds, then its fan-out's step
CREATE FUNCTION count_barrier(p_count barrier_count, p_done uuid[], OUT o_made_ready uuid, OUT o_closed_run uuid, OUT o_arrivals arrival[])
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  v_arrived int;
  v_settled boolean;
BEGIN
  o_arrivals := '{}';
  UPDATE barrier x SET slots_left = x.slots_left - p_count.full_slots, failed = x.failed + p_count.bad, skipped = x.skipped + p_count.skipped,
    succeeded = x.succeeded + CASE WHEN x.slots > 0 THEN 0 ELSE p_count.ok END
  WHERE x.barrier_id = p_count.barrier_id RETURNING * INTO STRICT b;
  v_settled := CASE WHEN b.slots > 0 THEN b.slots_left = 0 ELSE b.succeeded + b.skipped + CASE WHEN b.on_failed = 'hold' THEN 0 ELSE b.failed END >= b.expected END;
  IF b.slots > 0 AND v_settled THEN
    UPDATE barrier x SET succeeded = x.expected - x.failed - x.skipped WHERE x.barrier_id = b.barrier_id RETURNING * INTO b;
  END IF;
  IF b.state = 'waiting' THEN
    v_arrived := b.succeeded + CASE WHEN b.on_failed = 'collect' THEN b.failed ELSE 0 END;
    IF b.kind = 'after' THEN
      -- a step in a graph waits until all that it comes after has settled; then one failure is enough to never run it
      IF v_settled AND b.failed > 0 THEN o_arrivals := fail_barrier(b, 'what it comes after failed');
      ELSIF v_settled AND b.skipped = b.expected AND b.expected > 0 THEN o_arrivals := skip_held(b);
      ELSIF v_settled THEN o_made_ready := release_barrier(b); END IF;
    ELSIF b.rule = 'all' THEN
      IF b.failed > 0 AND b.on_failed = 'fail' THEN o_arrivals := fail_barrier(b, format('%s of %s children failed', b.failed, b.expected));
      ELSIF v_settled THEN o_made_ready := release_barrier(b); END IF;
    ELSIF v_arrived >= b.need THEN o_made_ready := release_barrier(b);
    ELSIF v_arrived + (b.expected - b.succeeded - b.failed - b.skipped) + CASE WHEN b.on_failed = 'hold' THEN b.failed ELSE 0 END < b.need THEN
      o_arrivals := fail_barrier(b, format('%s of %s are needed, and at most %s can still arrive', b.need, b.expected, b.expected - b.failed - b.skipped));
    END IF;
  ELSIF p_count.ok > 0 AND b.kind = 'gather' THEN
    UPDATE result r SET late = true WHERE r.step_id = ANY (p_done) AND NOT r.late AND b.fan_id = (SELECT s.fan_id FROM step s WHERE s.step_id = r.step_id);
  END IF;
  IF b.kind = 'gather' AND v_settled AND NOT b.closed THEN
    UPDATE barrier x SET closed = true WHERE x.barrier_id = b.barrier_id;
    o_closed_run := close_fan(b);
  END IF;
END $$;
