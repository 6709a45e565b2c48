-- purpose: a tenant's id by its name
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION tenant_by_name(p_name text) RETURNS uuid LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT t.tenant_id FROM tenant t WHERE t.name = p_name
$$;
