-- purpose: whether a value that is no blob is content of an available version, to whoever holds a lease in that tenant: its size
-- transition: none
-- fenced by: the step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION find_value(p_step uuid, p_fence bigint, p_sha256 bytea) RETURNS bigint LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT v.size FROM step s, artifact_version v WHERE s.step_id = p_step AND s.fence = p_fence AND v.sha256 = p_sha256 AND v.tenant_id = s.tenant_id AND v.state = 'available' LIMIT 1
$$;
