-- purpose: an API key; only the hash of its secret is kept; null when the name is taken
-- transition: none
-- fenced by: the unique keys (tenant, name) and hash
-- locks: only a new row; the audit chain last
CREATE FUNCTION create_key(p_tenant uuid, p_name text, p_hash bytea, p_scopes text[], p_expires timestamptz, p_actor text) RETURNS uuid LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH k AS (
    INSERT INTO api_key (key_id, tenant_id, name, secret_hash, scopes, expires_at) VALUES (uuidv7(), p_tenant, p_name, p_hash, p_scopes, p_expires)
    ON CONFLICT (tenant_id, name) DO NOTHING RETURNING key_id
  ), a AS (
    INSERT INTO audit (tenant_id, actor, action, target, detail) SELECT p_tenant, p_actor, 'key.create', p_name, jsonb_build_object('scopes', p_scopes, 'key', k.key_id) FROM k
  )
  SELECT k.key_id FROM k
$$;
