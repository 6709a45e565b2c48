-- purpose: end versions, and ask for their content to be removed where no other available version of the tenant has it
-- transition: artifact_version available -> deleted
-- fenced by: each version's state
-- locks: versions by id, then objects by hash
CREATE FUNCTION retire_versions(p_versions uuid[], p_actor text, p_why text) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int := 0;
  x record;
BEGIN
  PERFORM FROM artifact_version v WHERE v.version_id = ANY (p_versions) ORDER BY v.version_id FOR NO KEY UPDATE;
  FOR x IN
    WITH d AS (
      UPDATE artifact_version v SET state = 'deleted', version = v.version + 1, deleted_at = v_now WHERE v.version_id = ANY (p_versions) AND v.state = 'available' AND v.pinned_at IS NULL RETURNING v.*
    ), e AS (
      INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body)
      SELECT d.tenant_id, d.run_id, 'ArtifactDeleted', d.version, v_now, p_actor, jsonb_strip_nulls(jsonb_build_object('artifact', d.version_id, 'number', d.number, 'step', d.step_id, 'why', p_why)) FROM d
    )
    SELECT d.tenant_id, array_agg(d.sha256) AS hashes, count(*)::int AS n FROM d GROUP BY d.tenant_id ORDER BY d.tenant_id
  LOOP
    v_n := v_n + x.n;
    PERFORM ask_removals(x.tenant_id, x.hashes);
  END LOOP;
  RETURN v_n;
END $$;
