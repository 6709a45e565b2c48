-- purpose: the keys by which a tenant's Kafka commands are verified
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_signing_keys(p_tenant uuid, p_after text, p_limit int) RETURNS TABLE (key_id text, public_key bytea, scopes text[], created_at timestamptz, revoked_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT k.key_id, k.public_key, k.scopes, k.created_at, k.revoked_at FROM signing_key k WHERE k.tenant_id = p_tenant AND (p_after IS NULL OR k.key_id > p_after) ORDER BY k.key_id LIMIT p_limit
$$;
