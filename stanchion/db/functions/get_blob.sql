-- purpose: a value by its content's name, to whoever holds a lease in that tenant
-- transition: none
-- fenced by: the step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION get_blob(p_step uuid, p_fence bigint, p_sha256 bytea) RETURNS bytea LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.body FROM step s, blob b WHERE s.step_id = p_step AND s.fence = p_fence AND b.sha256 = p_sha256 AND b.tenant_id = s.tenant_id
$$;
