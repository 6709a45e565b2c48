-- purpose: make a version of a lease visible, once its content is stored and verified
-- transition: artifact_version pending -> available
-- fenced by: the step's fence; a stale writer is refused, and recorded
-- locks: the step, then the version, the object, its removal, the artifact
CREATE FUNCTION flip_artifact(p_worker uuid, p_step uuid, p_fence bigint, p_version uuid, p_sha256 bytea, p_size bigint) RETURNS TABLE (outcome text, number int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  s step;
  v artifact_version;
BEGIN
  SELECT x.* INTO s FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  SELECT x.* INTO v FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = s.tenant_id AND x.step_id = p_step AND x.fence = p_fence FOR NO KEY UPDATE;
  IF v.version_id IS NULL OR (v.state <> 'available' AND (s.fence <> p_fence OR s.state NOT IN ('leased', 'running'))) THEN
    PERFORM refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], NULL, 'flip_artifact', '');
    RETURN QUERY SELECT 'superseded', NULL::int;
    RETURN;
  END IF;
  RETURN QUERY SELECT f.outcome, f.number FROM flip_version(v, p_sha256, p_size) f;
END $$;
