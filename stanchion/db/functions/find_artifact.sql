-- purpose: where the content of a version is, to whoever holds a lease in its tenant; no row: the lease is not the current one
-- transition: none
-- fenced by: the step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION find_artifact(p_step uuid, p_fence bigint, p_version uuid) RETURNS TABLE (version_id uuid, name text, number int, sha256 bytea, size bigint, media_type text) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT v.version_id, a.name, v.number, v.sha256, v.size, v.media_type FROM step s
  LEFT JOIN artifact_version v ON v.version_id = p_version AND v.tenant_id = s.tenant_id AND v.state = 'available'
  LEFT JOIN artifact a ON a.artifact_id = v.artifact_id AND a.tenant_id = v.tenant_id
  WHERE s.step_id = p_step AND s.fence = p_fence
$$;
