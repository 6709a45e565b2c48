-- purpose: pin a version, which retention and deletion then leave alone, or let it go
-- transition: none (pinned_at is a flag)
-- fenced by: the version being available
-- locks: the version; the audit chain last
CREATE FUNCTION pin_artifact(p_tenant uuid, p_version uuid, p_pinned boolean, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v artifact_version;
BEGIN
  SELECT x.* INTO v FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = p_tenant AND x.state = 'available' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such artifact in this tenant'; END IF;
  IF (v.pinned_at IS NOT NULL) = p_pinned THEN RETURN false; END IF;
  UPDATE artifact_version x SET pinned_at = CASE WHEN p_pinned THEN v_now END WHERE x.version_id = p_version AND x.tenant_id = p_tenant;
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body) VALUES (p_tenant, v.run_id, CASE WHEN p_pinned THEN 'ArtifactPinned' ELSE 'ArtifactUnpinned' END, v.version, v_now, p_actor, jsonb_build_object('artifact', p_version));
  PERFORM note_act(p_tenant, p_actor, CASE WHEN p_pinned THEN 'artifact.pin' ELSE 'artifact.unpin' END, p_version::text, '{}');
  RETURN true;
END $$;
