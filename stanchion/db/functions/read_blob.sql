-- purpose: a stored value by its name, for services
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION read_blob(p_tenant uuid, p_sha256 bytea) RETURNS bytea LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.body FROM blob b WHERE b.sha256 = p_sha256 AND b.tenant_id = p_tenant
$$;
