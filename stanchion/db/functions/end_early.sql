-- purpose: the orchestrator found that a run can't go on
-- transition: run created|running -> cancelling, with outcome failed
-- fenced by: nothing
-- locks: the run
CREATE FUNCTION end_early(p_run uuid, p_reason jsonb) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT wind_down(p_run, 'failed', p_reason, 'orchestrator')
$$;
