-- purpose: a version becomes visible, with the next number; `swept` when its content was, or is being, removed since it was begun
-- transition: artifact_version pending -> available
-- fenced by: the version's state under its lock, and the removals of its content; the row trigger looks at the step's fence
-- locks: the object, its removal, then the artifact; the caller holds the version
CREATE FUNCTION flip_version(v artifact_version, p_sha256 bytea, p_size bigint) RETURNS TABLE (outcome text, number int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_number int;
  r object_removal;
BEGIN
  IF v.state = 'available' AND v.sha256 = p_sha256 AND v.size = p_size THEN
    RETURN QUERY SELECT 'available', v.number;  -- asked again, since the answer got lost
    RETURN;
  END IF;
  IF v.state <> 'pending' THEN
    RETURN QUERY SELECT 'abandoned', NULL::int;
    RETURN;
  END IF;
  PERFORM lock_object(v.tenant_id, p_sha256);
  SELECT x.* INTO r FROM object_removal x WHERE x.sha256 = p_sha256 AND x.tenant_id = v.tenant_id FOR UPDATE;
  IF r.begun_at IS NOT NULL AND (r.removed_at IS NULL OR r.removed_at >= v.created_at) THEN
    RETURN QUERY SELECT 'swept', NULL::int;
    RETURN;
  END IF;
  -- a removal that was asked for and not begun is called off: the content is named again
  DELETE FROM object_removal x WHERE x.sha256 = p_sha256 AND x.tenant_id = v.tenant_id;
  UPDATE artifact a SET latest = a.latest + 1 WHERE a.artifact_id = v.artifact_id AND a.tenant_id = v.tenant_id RETURNING a.latest INTO v_number;
  v_now := clock();
  UPDATE artifact_version x SET state = 'available', version = x.version + 1, number = v_number, sha256 = p_sha256, size = p_size, available_at = v_now WHERE x.version_id = v.version_id AND x.tenant_id = v.tenant_id;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body)
  SELECT v.tenant_id, v.run_id, v.step_id, 'ArtifactAvailable', v.version + 1, v.fence, v_now, v.actor,
    jsonb_build_object('artifact', v.version_id, 'name', a.name, 'number', v_number, 'sha256', encode(p_sha256, 'hex'), 'size', p_size) FROM artifact a WHERE a.artifact_id = v.artifact_id AND a.tenant_id = v.tenant_id;
  RETURN QUERY SELECT 'available', v_number;
END $$;
