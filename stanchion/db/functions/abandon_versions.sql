-- purpose: give up versions that were begun so long ago and never became available: their writer died, or was refused
-- transition: artifact_version pending -> deleted
-- fenced by: each version's state under its lock; a flip takes the same
-- locks: versions (skipping locked ones)
CREATE FUNCTION abandon_versions(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int;
BEGIN
  WITH d AS (
    UPDATE artifact_version v SET state = 'deleted', version = v.version + 1, deleted_at = v_now WHERE (v.version_id, v.tenant_id) IN (
      SELECT x.version_id, x.tenant_id FROM artifact_version x WHERE x.state = 'pending' AND x.created_at < v_now - p_older ORDER BY x.created_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING v.*
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body) SELECT d.tenant_id, d.run_id, 'ArtifactAbandoned', d.version, v_now, 'sweeper', jsonb_strip_nulls(jsonb_build_object('artifact', d.version_id, 'step', d.step_id)) FROM d
  )
  SELECT count(*) INTO v_n FROM d;
  RETURN v_n;
END $$;
