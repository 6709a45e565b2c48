-- purpose: a step's result for the planner: the list behind a fan-out, or where it is stored
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION read_value(p_tenant uuid, p_step uuid) RETURNS TABLE (body jsonb, blob bytea, sha256 bytea) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT r.body, b.body, r.blob FROM result r LEFT JOIN blob b ON b.sha256 = r.blob AND b.tenant_id = r.tenant_id WHERE r.step_id = p_step AND r.tenant_id = p_tenant
$$;
