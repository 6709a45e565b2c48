-- purpose: count down what is open of each run, once for each time it is named
-- transition: those of conclude
-- fenced by: the caller
-- locks: runs by id, then tasks by id
CREATE FUNCTION settle_runs(p_runs uuid[]) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT conclude(ARRAY(SELECT ROW(u, 1, NULL, NULL, NULL)::aftermath FROM unnest(p_runs) u))
$$;
