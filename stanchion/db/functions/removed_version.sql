-- purpose: what is left of a version whose content was removed: what it was, when it went, and at whose wish
-- transition: none
-- fenced by: nothing: a version that was deleted never comes back
-- locks: none
CREATE FUNCTION removed_version(p_tenant uuid, p_version uuid) RETURNS TABLE (version_id uuid, task_id uuid, name text, number int, sha256 bytea, size bigint, media_type text, deleted_at timestamptz, deleted_by text, why text)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT v.version_id, v.task_id, a.name, v.number, v.sha256, v.size, v.media_type, v.deleted_at, e.actor, e.body->>'why'
  FROM artifact_version v JOIN artifact a ON a.artifact_id = v.artifact_id
  LEFT JOIN LATERAL (SELECT x.actor, x.body FROM event x WHERE x.run_id = v.run_id AND x.kind = 'ArtifactDeleted' AND x.body->>'artifact' = v.version_id::text LIMIT 1) e ON true
  WHERE v.version_id = p_version AND v.tenant_id = p_tenant AND v.state = 'deleted' AND v.number IS NOT NULL
$$;
