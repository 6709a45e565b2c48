-- purpose: take arrivals off the slots of their barriers and sum them up a barrier; the slot of a child is fixed by its index
-- transition: none
-- fenced by: the caller
-- locks: slots by (barrier, slot)
CREATE FUNCTION count_slots(p_arrivals arrival[]) RETURNS barrier_count[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  a record;
  v_left int;
  v_counts barrier_count[] := '{}';
  v_full int;
BEGIN
  FOR a IN
    SELECT x.barrier_id, x.slot, x.ok, x.bad, x.skipped, b.slots, b.on_failed
    FROM (SELECT u.barrier_id, (u.idx / 64) % 16 AS slot, sum(u.ok)::int AS ok, sum(u.bad)::int AS bad, sum(u.skipped)::int AS skipped
          FROM unnest(p_arrivals) u GROUP BY 1, 2) x,
    LATERAL (SELECT b.slots, b.on_failed FROM barrier b WHERE b.barrier_id = x.barrier_id) b
    ORDER BY x.barrier_id, x.slot
  LOOP
    v_full := 0;
    IF a.slots > 0 THEN
      -- a failed child that holds the barrier has not arrived: it may be reopened
      UPDATE barrier_slot SET remaining = remaining - (a.ok + a.skipped + CASE WHEN a.on_failed = 'hold' THEN 0 ELSE a.bad END)
      WHERE barrier_id = a.barrier_id AND slot = a.slot RETURNING remaining INTO STRICT v_left;
      IF v_left = 0 AND (a.ok + a.skipped > 0 OR a.on_failed <> 'hold') THEN v_full := 1; END IF;
    END IF;
    IF cardinality(v_counts) > 0 AND v_counts[cardinality(v_counts)].barrier_id = a.barrier_id THEN
      v_counts[cardinality(v_counts)] := ROW(a.barrier_id, a.slots > 0, v_counts[cardinality(v_counts)].full_slots + v_full, v_counts[cardinality(v_counts)].ok + a.ok,
        v_counts[cardinality(v_counts)].bad + a.bad, v_counts[cardinality(v_counts)].skipped + a.skipped)::barrier_count;
    ELSE
      v_counts := v_counts || ROW(a.barrier_id, a.slots > 0, v_full, a.ok, a.bad, a.skipped)::barrier_count;
    END IF;
  END LOOP;
  RETURN v_counts;
END $$;
