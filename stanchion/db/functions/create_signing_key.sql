-- purpose: the public half of a key that signs Kafka commands; the private half never comes here; false when the id is taken
-- transition: none
-- fenced by: the key (id, tenant)
-- locks: only a new row; the audit chain last
CREATE FUNCTION create_signing_key(p_tenant uuid, p_key text, p_public bytea, p_scopes text[], p_actor text) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH k AS (
    INSERT INTO signing_key (key_id, tenant_id, public_key, scopes) VALUES (p_key, p_tenant, p_public, p_scopes) ON CONFLICT DO NOTHING RETURNING key_id
  ), a AS (
    INSERT INTO audit (tenant_id, actor, action, target, detail) SELECT p_tenant, p_actor, 'signing_key.create', p_key, jsonb_build_object('scopes', p_scopes) FROM k
  )
  SELECT EXISTS (SELECT FROM k)
$$;
