-- purpose: count what settled at the barriers it feeds; open, fail or close them, and follow what that settles in turn
-- transition: barrier waiting -> released|failed; held step pending -> ready|waiting|skipped; fan-out waiting -> succeeded
-- fenced by: the caller, which settled the arriving steps in this transaction
-- locks: in each wave slots by (barrier, slot), then barriers, the younger first, then the steps they hold; never a run: that is the aftermath, which the caller concludes last
CREATE FUNCTION arrive(p_arrivals arrival[], p_done uuid[], OUT o_ready uuid[], OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_next arrival[] := p_arrivals;
  v_wave arrival[];
  v_done uuid[] := p_done;
  v_counted barrier[];
  c barrier_count;
  b barrier;
  d record;
BEGIN
  o_ready := '{}';
  o_after := '{}';
  WHILE cardinality(v_next) > 0 LOOP
    -- what a step comes after is counted before any join: all that this transaction brings to a join is there when its slots are locked
    SELECT array_agg(x.a) FILTER (WHERE x.kind = 'after'), array_agg(x.a) FILTER (WHERE x.kind <> 'after') INTO v_wave, v_next
    FROM (SELECT a, (SELECT k.kind FROM barrier k WHERE k.barrier_id = a.barrier_id) AS kind FROM unnest(v_next) a) x;
    IF v_wave IS NULL THEN
      v_wave := v_next;
      v_next := '{}';
    END IF;
    v_next := coalesce(v_next, '{}');
    -- all barriers of the wave are counted, the younger first, before the first held step is touched
    v_counted := '{}';
    FOREACH c IN ARRAY count_slots(v_wave) LOOP
      -- a slot that is not empty yet, and nothing but successes: the barrier's row is left alone
      CONTINUE WHEN c.slotted AND c.full_slots = 0 AND c.bad = 0 AND c.skipped = 0;
      v_counted := v_counted || count_barrier(c);
    END LOOP;
    FOREACH b IN ARRAY v_counted LOOP
      SELECT * INTO d FROM decide_barrier(b, v_done);
      IF d.o_ready IS NOT NULL THEN o_ready := o_ready || d.o_ready; END IF;
      o_after := o_after || d.o_after;
      v_next := v_next || d.o_arrivals;
      v_done := v_done || d.o_skipped;
    END LOOP;
  END LOOP;
END $$;
