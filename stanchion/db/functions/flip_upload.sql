-- purpose: make a version that a person or a key uploaded visible, once its content is stored and verified
-- transition: artifact_version pending -> available
-- fenced by: the version's state; a task whose payloads were removed takes no more
-- locks: the task (shared), then the version, the object, its removal, the artifact; the audit chain last
CREATE FUNCTION flip_upload(p_tenant uuid, p_version uuid, p_sha256 bytea, p_size bigint) RETURNS TABLE (outcome text, number int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v artifact_version;
  v_found record;
BEGIN
  PERFORM FROM task t WHERE t.tenant_id = p_tenant AND t.task_id = (SELECT x.task_id FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = p_tenant) AND t.payload_removed_at IS NULL FOR SHARE;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'abandoned', NULL::int;
    RETURN;
  END IF;
  SELECT x.* INTO v FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = p_tenant AND x.step_id IS NULL FOR NO KEY UPDATE;
  SELECT f.outcome, f.number INTO v_found FROM flip_version(v, p_sha256, p_size) f;
  IF v_found.outcome = 'available' AND v.state = 'pending' THEN
    PERFORM note_act(p_tenant, v.actor, 'artifact.put', p_version::text, jsonb_build_object('task', v.task_id, 'number', v_found.number, 'sha256', encode(p_sha256, 'hex'), 'size', p_size));
  END IF;
  RETURN QUERY SELECT v_found.outcome, v_found.number;
END $$;
