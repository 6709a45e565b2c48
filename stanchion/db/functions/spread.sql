-- purpose: let settled steps arrive and do what follows: offer what became ready, then conclude what concerns the runs
-- transition: those of arrive and conclude
-- fenced by: the caller
-- locks: slots, barriers, held steps, runs, tasks
CREATE FUNCTION spread(p_arrivals arrival[], p_done uuid[], p_after aftermath[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ready uuid[];
  v_after aftermath[];
BEGIN
  IF cardinality(p_arrivals) > 0 THEN
    SELECT a.o_ready, a.o_after INTO v_ready, v_after FROM arrive(p_arrivals, p_done) a;
    IF cardinality(v_ready) > 0 THEN PERFORM make_ready(v_ready); END IF;
  END IF;
  PERFORM conclude(p_after || v_after);
END $$;
