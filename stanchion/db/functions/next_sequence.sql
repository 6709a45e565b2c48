-- purpose: the next number of a run's published events; drawn under the run's row lock, so that it follows commit order
-- transition: none
-- fenced by: the caller
-- locks: the run
CREATE FUNCTION next_sequence(p_run uuid) RETURNS bigint LANGUAGE sql VOLATILE SET search_path = stanchion, pg_temp AS $$
  UPDATE run SET seq = seq + 1 WHERE run_id = p_run RETURNING seq
$$;
