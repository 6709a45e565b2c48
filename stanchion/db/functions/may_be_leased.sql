-- purpose: whether a step may be leased while its run is in such a state: a probe, and what undoes, also while the run winds down, and what undoes after it ended
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION may_be_leased(p_state text, p_kind text, p_run_state text, p_paused timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_run_state IN ('created', 'running') AND (p_paused IS NULL OR p_state = 'unknown') OR p_run_state = 'cancelling' AND p_state = 'unknown' OR p_kind = 'undo'
$$;
