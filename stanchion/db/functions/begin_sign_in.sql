-- purpose: remember a sign-in that goes to a provider; those that never came back go
-- transition: none
-- fenced by: the primary key
-- locks: rows that go (skipping locked ones), a new row
CREATE FUNCTION begin_sign_in(p_tenant uuid, p_state bytea, p_binder bytea, p_nonce text, p_verifier text, p_return_to text, p_seconds int) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  DELETE FROM sign_in s USING (SELECT x.state_hash, x.tenant_id FROM sign_in x WHERE x.expires_at < (SELECT clock()) ORDER BY x.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED) old
  WHERE s.state_hash = old.state_hash AND s.tenant_id = old.tenant_id;
  INSERT INTO sign_in (tenant_id, state_hash, binder_hash, nonce, verifier, return_to, expires_at) VALUES (p_tenant, p_state, p_binder, p_nonce, p_verifier, p_return_to, clock() + p_seconds * interval '1 s')
$$;
