-- purpose: a new version of an artifact, which nobody reads until it is flipped; the first one makes the artifact
-- transition: artifact_version born pending
-- fenced by: the caller; the row trigger looks at the fence again
-- locks: the artifact, while it is new
CREATE FUNCTION insert_version(p_tenant uuid, p_task uuid, p_run uuid, p_step uuid, p_fence bigint, p_actor text, p_name text, p_media_type text, p_made_from uuid[]) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_version uuid;
BEGIN
  IF EXISTS (SELECT FROM unnest(p_made_from) m WHERE NOT EXISTS (SELECT FROM artifact_version v WHERE v.version_id = m AND v.tenant_id = p_tenant AND v.number IS NOT NULL)) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 a version that it is made from is not in this tenant';
  END IF;
  INSERT INTO artifact (tenant_id, task_id, name, created_at) VALUES (p_tenant, p_task, p_name, v_now) ON CONFLICT (task_id, name, tenant_id) DO NOTHING;
  INSERT INTO artifact_version (tenant_id, artifact_id, task_id, run_id, step_id, fence, actor, state, media_type, made_from, created_at)
  SELECT p_tenant, a.artifact_id, p_task, p_run, p_step, p_fence, p_actor, 'pending', p_media_type, p_made_from, v_now FROM artifact a WHERE a.task_id = p_task AND a.name = p_name AND a.tenant_id = p_tenant
  RETURNING version_id INTO v_version;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body)
  VALUES (p_tenant, p_run, p_step, 'ArtifactBegun', 0, p_fence, v_now, p_actor, jsonb_build_object('artifact', v_version, 'name', p_name, 'media_type', p_media_type));
  RETURN v_version;
END $$;
