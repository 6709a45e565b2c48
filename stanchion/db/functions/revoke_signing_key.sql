-- purpose: end a signing key: commands that it signs are parked from now on; false when the tenant has no such key
-- transition: none
-- fenced by: nothing
-- locks: the key's row; the audit chain last
CREATE FUNCTION revoke_signing_key(p_tenant uuid, p_key text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE signing_key k SET revoked_at = clock() WHERE k.key_id = p_key AND k.tenant_id = p_tenant AND k.revoked_at IS NULL;
  IF FOUND THEN
    INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'signing_key.revoke', p_key, '{}');
    RETURN true;
  END IF;
  RETURN EXISTS (SELECT FROM signing_key k WHERE k.key_id = p_key AND k.tenant_id = p_tenant);
END $$;
