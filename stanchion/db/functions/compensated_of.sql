-- purpose: what a run that ended without success had done outside, and what became of it; nothing when it had done nothing
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION compensated_of(p_run uuid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT jsonb_build_object('effects', jsonb_agg(jsonb_build_object('operation', o.operation_id, 'kind', o.kind, 'key', o.key, 'state', o.state, 'reach', o.reach) ORDER BY o.confirmed_at))
  FROM operation o WHERE o.run_id = p_run AND o.state IN ('confirmed', 'compensated', 'unknown') AND o.compensates IS NULL HAVING count(*) > 0
$$;
