-- purpose: bring one barrier's counts up to date
-- transition: none; decide_barrier decides
-- fenced by: the caller
-- locks: the barrier
CREATE FUNCTION count_barrier(p_count barrier_count) RETURNS barrier LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
BEGIN
  UPDATE barrier x SET slots_left = x.slots_left - p_count.full_slots, failed = x.failed + p_count.bad, skipped = x.skipped + p_count.skipped,
    -- a share is one of the branches that take part: those that chose another way don't
    need = CASE WHEN x.share IS NULL OR x.state <> 'waiting' THEN x.need ELSE needed(x.share, x.expected - x.skipped - p_count.skipped) END,
    -- with slots the successes are known when the last slot is empty: they are what is neither failed nor skipped
    succeeded = CASE WHEN x.slots = 0 THEN x.succeeded + p_count.ok
                     WHEN x.slots_left = p_count.full_slots THEN x.expected - x.failed - p_count.bad - x.skipped - p_count.skipped ELSE x.succeeded END
  WHERE x.barrier_id = p_count.barrier_id RETURNING * INTO STRICT b;
  RETURN b;
END $$;
