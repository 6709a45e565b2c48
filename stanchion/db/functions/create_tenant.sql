-- purpose: a tenant, made once a name
-- transition: none
-- fenced by: the name's unique key
-- locks: only a new row
CREATE FUNCTION create_tenant(p_name text) RETURNS uuid LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH n AS (INSERT INTO tenant (tenant_id, name) VALUES (uuidv7(), p_name) ON CONFLICT (name) DO NOTHING RETURNING tenant_id)
  SELECT tenant_id FROM n UNION ALL SELECT t.tenant_id FROM tenant t WHERE t.name = p_name LIMIT 1
$$;
