-- purpose: whether a version of an artifact is there, with this content, and is still the latest of its name
-- transition: none
-- fenced by: nothing: whoever acts on the answer holds the artifact's row
-- locks: none
CREATE FUNCTION is_current(p_tenant uuid, p_version uuid, p_sha256 bytea) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT EXISTS (SELECT FROM artifact_version v JOIN artifact r ON r.artifact_id = v.artifact_id AND r.tenant_id = v.tenant_id
    WHERE v.version_id = p_version AND v.tenant_id = p_tenant AND v.state = 'available' AND v.sha256 = p_sha256 AND v.number = r.latest)
$$;
