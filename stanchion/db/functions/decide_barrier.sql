-- purpose: a barrier was counted: open it, fail it, close it, or go on waiting
-- transition: barrier waiting -> released|failed; fan-out waiting -> succeeded when all its barriers are closed
-- fenced by: the caller
-- locks: the caller holds the barrier; then the step it holds, then its fan-out's step
CREATE FUNCTION decide_barrier(b barrier, p_done uuid[], OUT o_ready uuid, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[])
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_all boolean := CASE WHEN b.slots > 0 THEN b.slots_left = 0 ELSE b.succeeded + b.failed + b.skipped >= b.expected END;
  -- failed children that hold the barrier are waited for: they may be reopened
  v_settled boolean := v_all AND (b.failed = 0 OR b.on_failed <> 'hold');
  v_arrived int := b.succeeded + CASE WHEN b.on_failed = 'collect' THEN b.failed ELSE 0 END;
  v_hope int := b.expected - b.succeeded - b.skipped - CASE WHEN b.on_failed = 'hold' THEN 0 ELSE b.failed END;
  v_verdict text := 'wait';
  v_why text;
  x record;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_skipped := '{}';
  IF b.state <> 'waiting' THEN
    v_verdict := b.state;
    IF b.state = 'released' AND b.kind = 'gather' THEN PERFORM mark_late(b, p_done); END IF;
  ELSIF b.kind = 'after' THEN
    -- a step in a graph waits until all that it comes after has settled; then one failure is enough to never run it
    v_verdict := CASE WHEN NOT v_settled THEN 'wait' WHEN b.failed > 0 THEN 'fail' WHEN b.skipped = b.expected AND b.expected > 0 THEN 'skip' ELSE 'release' END;
    v_why := 'what it comes after failed';
  ELSIF b.rule = 'all' THEN
    v_verdict := CASE WHEN b.failed > 0 AND b.on_failed = 'fail' THEN 'fail' WHEN v_settled THEN 'release' ELSE 'wait' END;
    v_why := format('%s of %s children failed', b.failed, b.expected);
  ELSE
    v_verdict := CASE WHEN v_arrived >= b.need THEN 'release' WHEN v_arrived + v_hope < b.need THEN 'fail' ELSE 'wait' END;
    v_why := format('%s of %s are needed%s, and at most %s can still arrive', b.need, b.expected, CASE WHEN b.skipped > 0 THEN format(' (%s took no part)', b.skipped) ELSE '' END, v_arrived + v_hope);
  END IF;
  IF v_verdict = 'release' THEN
    SELECT * INTO x FROM release_barrier(b);
    o_ready := x.o_ready;
    o_after := x.o_after;
  ELSIF v_verdict IN ('fail', 'skip') THEN
    IF v_verdict = 'fail' THEN SELECT * INTO x FROM fail_barrier(b, v_why); ELSE SELECT * INTO x FROM skip_held(b); END IF;
    o_arrivals := x.o_arrivals;
    o_after := x.o_after;
    o_skipped := x.o_skipped;
  END IF;
  IF b.kind = 'gather' AND v_all AND NOT b.closed AND v_verdict <> 'wait' THEN o_after := o_after || close_barrier(b); END IF;
END $$;
