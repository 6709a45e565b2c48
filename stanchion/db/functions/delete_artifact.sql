-- purpose: delete a version at somebody's wish; false when it was deleted before
-- transition: artifact_version available -> deleted
-- fenced by: the version's state and pin, looked at under its lock
-- locks: the version, then the object; the audit chain last
CREATE FUNCTION delete_artifact(p_tenant uuid, p_version uuid, p_reason text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v artifact_version;
BEGIN
  SELECT x.* INTO v FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = p_tenant AND x.number IS NOT NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such artifact in this tenant'; END IF;
  IF v.pinned_at IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-ART-03 the version is pinned'; END IF;
  IF v.state = 'available' AND NOT EXISTS (SELECT FROM artifact_version o WHERE o.sha256 = v.sha256 AND o.tenant_id = p_tenant AND o.state = 'available' AND o.version_id <> p_version)
    AND (EXISTS (SELECT FROM result x WHERE x.blob = v.sha256 AND x.tenant_id = p_tenant) OR EXISTS (SELECT FROM step x WHERE x.input_blob = v.sha256 AND x.tenant_id = p_tenant)) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-ART-06 the version is a value that a step took or returned';
  END IF;
  IF retire_versions(ARRAY[p_version], p_actor, p_reason) = 0 THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'artifact.delete', p_version::text, jsonb_build_object('reason', p_reason));
  RETURN true;
END $$;
