-- purpose: how many children a join has in each state, as it stood when its barrier opened
-- transition: none
-- fenced by: the joining step's fence
-- locks: none
CREATE FUNCTION results_counts(p_step uuid, p_fence bigint, p_fan uuid) RETURNS TABLE (expected int, succeeded int, failed int, skipped int)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.expected, r.included, r.failed, r.skipped FROM step j, gather_of(j, p_fan) b, barrier_release r
  WHERE j.step_id = p_step AND j.fence = p_fence AND r.barrier_id = b.barrier_id AND r.tenant_id = b.tenant_id
$$;
