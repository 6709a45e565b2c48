-- purpose: one at a time decides about the content of this name in a tenant: that a version names it, or that it may go
-- transition: none
-- fenced by: nothing
-- locks: an advisory one, of the tenant and the hash
CREATE FUNCTION lock_object(p_tenant uuid, p_sha256 bytea) RETURNS void LANGUAGE sql VOLATILE SET search_path = stanchion, pg_temp AS $$
  SELECT pg_advisory_xact_lock(hashtextextended('object:' || p_tenant || ':' || encode(p_sha256, 'hex'), 0))
$$;
