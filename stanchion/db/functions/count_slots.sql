-- purpose: take arrivals off the slots of their barriers and sum them up a barrier; the slot of a child is fixed by its index
-- transition: none
-- fenced by: the caller
-- locks: slots by (barrier, slot), younger barriers first
CREATE FUNCTION count_slots(p_arrivals arrival[]) RETURNS barrier_count[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  a record;
  c barrier_count;
  v_left int;
  v_full int;
  v_counts barrier_count[] := '{}';
BEGIN
  FOR a IN
    SELECT x.barrier_id, x.slot, x.ok, x.bad, x.skipped, (SELECT b.slots > 0 FROM barrier b WHERE b.barrier_id = x.barrier_id) AS slotted
    FROM (SELECT u.barrier_id, slot_of(u.idx) AS slot, sum(u.ok)::int AS ok, sum(u.bad)::int AS bad, sum(u.skipped)::int AS skipped
          FROM unnest(p_arrivals) u GROUP BY 1, 2) x
    -- an inner join is younger than the one around it, and a failure there goes on outwards: always the younger first
    ORDER BY x.barrier_id DESC, x.slot
  LOOP
    v_full := 0;
    IF a.slotted AND a.ok + a.bad + a.skipped > 0 THEN
      UPDATE barrier_slot SET remaining = remaining - (a.ok + a.bad + a.skipped) WHERE barrier_id = a.barrier_id AND slot = a.slot RETURNING remaining INTO STRICT v_left;
      v_full := (v_left = 0)::int;
    END IF;
    IF c.barrier_id = a.barrier_id THEN
      c := ROW(c.barrier_id, c.slotted, c.full_slots + v_full, c.ok + a.ok, c.bad + a.bad, c.skipped + a.skipped)::barrier_count;
    ELSE
      IF c.barrier_id IS NOT NULL THEN v_counts := v_counts || c; END IF;
      c := ROW(a.barrier_id, a.slotted, v_full, a.ok, a.bad, a.skipped)::barrier_count;
    END IF;
  END LOOP;
  RETURN CASE WHEN c.barrier_id IS NULL THEN v_counts ELSE v_counts || c END;
END $$;
