-- purpose: begin a version of an artifact under a lease, before any byte is stored; NULL: the lease is not the current one
-- transition: artifact_version born pending
-- fenced by: the step's fence; a stale writer is refused, and recorded
-- locks: the step, then the artifact
CREATE FUNCTION begin_artifact(p_worker uuid, p_step uuid, p_fence bigint, p_name text, p_media_type text, p_made_from uuid[]) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT x.* INTO s FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  IF NOT FOUND OR s.fence <> p_fence OR s.state NOT IN ('leased', 'running') THEN
    PERFORM refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], NULL, 'begin_artifact', '');
    RETURN NULL;
  END IF;
  RETURN insert_version(s.tenant_id, (SELECT r.task_id FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id), s.run_id, s.step_id, s.fence, NULL, p_name, p_media_type, p_made_from);
END $$;
