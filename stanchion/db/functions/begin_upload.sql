-- purpose: begin a version of an artifact for a person or a key, before any byte is stored
-- transition: artifact_version born pending
-- fenced by: the task's row: retention has not been there
-- locks: the task (shared), then the artifact
CREATE FUNCTION begin_upload(p_tenant uuid, p_task uuid, p_name text, p_media_type text, p_made_from uuid[], p_actor text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  t task;
BEGIN
  SELECT x.* INTO t FROM task x WHERE x.task_id = p_task AND x.tenant_id = p_tenant FOR SHARE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  IF t.payload_removed_at IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-TASK-08 the payloads of this task were removed'; END IF;
  RETURN insert_version(p_tenant, p_task, t.run_id, NULL, NULL, p_actor, p_name, p_media_type, p_made_from);
END $$;
