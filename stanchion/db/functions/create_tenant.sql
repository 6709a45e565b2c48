-- purpose: a tenant, made once a name; noted in its own audit log, and in that of the tenant whose key or person made it
-- transition: none
-- fenced by: the name's unique key
-- locks: only a new row; the audit chain last
CREATE FUNCTION create_tenant(p_name text, p_actor text DEFAULT NULL, p_by uuid DEFAULT NULL) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_tenant uuid;
BEGIN
  INSERT INTO tenant (tenant_id, name) VALUES (uuidv7(), p_name) ON CONFLICT (name) DO NOTHING RETURNING tenant_id INTO v_tenant;
  IF v_tenant IS NULL THEN RETURN (SELECT t.tenant_id FROM tenant t WHERE t.name = p_name); END IF;
  IF p_actor IS NOT NULL THEN
    PERFORM note_act(x, p_actor, 'tenant.create', p_name, '{}') FROM unnest(ARRAY[v_tenant, p_by]) x WHERE x IS NOT NULL;
  END IF;
  RETURN v_tenant;
END $$;
