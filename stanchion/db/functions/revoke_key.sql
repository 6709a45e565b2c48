-- purpose: end a key; revoking it again changes nothing; false when the tenant has no such key
-- transition: none
-- fenced by: nothing
-- locks: the key's row; the audit chain last
CREATE FUNCTION revoke_key(p_tenant uuid, p_key uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_name text;
BEGIN
  UPDATE api_key k SET revoked_at = clock() WHERE k.key_id = p_key AND k.tenant_id = p_tenant AND k.revoked_at IS NULL RETURNING k.name INTO v_name;
  IF FOUND THEN
    INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'key.revoke', v_name, jsonb_build_object('key', p_key));
    RETURN true;
  END IF;
  RETURN EXISTS (SELECT FROM api_key k WHERE k.key_id = p_key AND k.tenant_id = p_tenant);
END $$;
