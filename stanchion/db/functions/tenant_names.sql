-- purpose: the names by which tenants are known outside; messages and logs carry names
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION tenant_names(p_tenants uuid[]) RETURNS TABLE (tenant_id uuid, name text) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT t.tenant_id, t.name FROM tenant t WHERE t.tenant_id = ANY (p_tenants)
$$;
