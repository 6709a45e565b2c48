-- purpose: how many children a join has in each state, as it stood when its barrier opened
-- transition: none
-- fenced by: the joining step's fence
-- locks: none
CREATE FUNCTION results_counts(p_step uuid, p_fence bigint, p_fan uuid, p_node text) RETURNS TABLE (expected int, succeeded int, failed int, skipped int)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.expected, coalesce(r.included, b.succeeded), b.failed, b.skipped FROM step j
  JOIN barrier b ON b.step_id = j.step_id AND b.fan_id = p_fan AND b.tenant_id = j.tenant_id
  LEFT JOIN barrier_release r ON r.barrier_id = b.barrier_id AND r.tenant_id = j.tenant_id
  WHERE j.step_id = p_step AND j.fence = p_fence
$$;
