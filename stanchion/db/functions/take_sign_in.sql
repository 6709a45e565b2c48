-- purpose: a sign-in comes back from its provider: once, in time, and to the browser that began it
-- transition: none
-- fenced by: the row, which is deleted
-- locks: the row
CREATE FUNCTION take_sign_in(p_tenant uuid, p_state bytea, p_binder bytea) RETURNS TABLE (nonce text, verifier text, return_to text) LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  DELETE FROM sign_in s WHERE s.state_hash = p_state AND s.tenant_id = p_tenant AND s.binder_hash = p_binder AND s.expires_at > clock() RETURNING s.nonce, s.verifier, s.return_to
$$;
