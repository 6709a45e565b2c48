-- purpose: somebody asks for a job in bulk; asking again with the same key is the same job
-- transition: maintenance job: born due
-- fenced by: the primary key
-- locks: only new rows; the audit chain last
CREATE FUNCTION request_maintenance(p_tenant uuid, p_kind text, p_key text, p_request jsonb, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO maintenance_job (kind, key, tenant_id, request) VALUES (p_kind, p_key, p_tenant, p_request) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'maintenance.' || p_kind, p_key, p_request);
  RETURN true;
END $$;
