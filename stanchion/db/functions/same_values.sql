-- purpose: whether steps of a retried run have the results that their like had in the run before, pair by pair
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION same_values(p_tenant uuid, p_steps uuid[], p_before uuid[]) RETURNS boolean[] LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT array_agg((SELECT ROW(r.body, r.blob) FROM result r WHERE r.step_id = u.now AND r.tenant_id = p_tenant) IS NOT DISTINCT FROM (SELECT ROW(r.body, r.blob) FROM result r WHERE r.step_id = u.before AND r.tenant_id = p_tenant) ORDER BY u.n)
  FROM unnest(p_steps, p_before) WITH ORDINALITY u(now, before, n)
$$;
