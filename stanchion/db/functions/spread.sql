-- purpose: let settled steps arrive and do what follows: offer what became ready, count down the runs
-- transition: those of arrive and settle_runs
-- fenced by: the caller
-- locks: slots, barriers, held steps, runs, tasks
CREATE FUNCTION spread(p_arrivals arrival[], p_done uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ready uuid[];
  v_settled uuid[];
BEGIN
  IF p_arrivals IS NULL OR cardinality(p_arrivals) = 0 THEN RETURN; END IF;
  SELECT a.o_ready, a.o_settled INTO v_ready, v_settled FROM arrive(p_arrivals, p_done) a;
  IF cardinality(v_ready) > 0 THEN PERFORM make_ready(v_ready); END IF;
  PERFORM settle_runs(v_settled);
END $$;
