-- purpose: count what settled at the barriers it feeds; open, fail or close them, and follow what that settles in turn
-- transition: barrier waiting -> released|failed; held step pending -> ready|waiting|skipped; fan-out waiting -> succeeded
-- fenced by: the caller, which settled the arriving steps in this transaction
-- locks: slots by (barrier, slot), then barriers by id, then the steps they hold; a barrier locked between two slots deadlocked two batches
CREATE FUNCTION arrive(p_arrivals arrival[], p_done uuid[], OUT o_ready uuid[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_next arrival[] := p_arrivals;
  v_wave arrival[];
  v_counts barrier_count[];
  v_found arrival[];
  c barrier_count;
  v_made uuid;
  v_closed uuid;
BEGIN
  o_ready := '{}';
  o_settled := '{}';
  WHILE cardinality(v_next) > 0 LOOP
    v_wave := v_next;
    v_next := '{}';
    v_counts := count_slots(v_wave);
    FOREACH c IN ARRAY v_counts LOOP
      -- a slot that is not empty yet, and nothing but successes: the barrier's row is left alone
      CONTINUE WHEN c.slotted AND c.full_slots = 0 AND c.bad = 0 AND c.skipped = 0;
      SELECT x.o_made_ready, x.o_closed_run, x.o_arrivals INTO v_made, v_closed, v_found FROM count_barrier(c, p_done) x;
      IF v_made IS NOT NULL THEN o_ready := o_ready || v_made; END IF;
      IF v_closed IS NOT NULL THEN o_settled := o_settled || v_closed; END IF;
      v_next := v_next || v_found;
    END LOOP;
  END LOOP;
END $$;
