-- purpose: the tenant behind this one, in the order of their ids: whose objects to look at next
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION next_tenant(p_after uuid) RETURNS uuid LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT t.tenant_id FROM tenant t WHERE t.tenant_id > p_after ORDER BY t.tenant_id LIMIT 1
$$;
