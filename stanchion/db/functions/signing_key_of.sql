-- purpose: the public key by which a Kafka command is verified
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION signing_key_of(p_tenant uuid, p_key text) RETURNS TABLE (public_key bytea, scopes text[]) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT k.public_key, k.scopes FROM signing_key k WHERE k.tenant_id = p_tenant AND k.key_id = p_key AND k.revoked_at IS NULL
$$;
