-- purpose: whose key this is and what it may do
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION authenticate(p_hash bytea) RETURNS TABLE (tenant_id uuid, tenant text, key_name text, scopes text[]) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT k.tenant_id, t.name, k.name, k.scopes FROM api_key k JOIN tenant t ON t.tenant_id = k.tenant_id
  WHERE k.secret_hash = p_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock())
$$;
