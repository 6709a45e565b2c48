-- purpose: a tenant's keys, newest first; a secret is nowhere to be shown, only its hash was kept
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_keys(p_tenant uuid, p_before uuid, p_limit int) RETURNS TABLE (key_id uuid, name text, scopes text[], created_at timestamptz, expires_at timestamptz, revoked_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT k.key_id, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at FROM api_key k
  WHERE k.tenant_id = p_tenant AND (p_before IS NULL OR k.key_id < p_before) ORDER BY k.key_id DESC LIMIT p_limit
$$;
