-- purpose: rows of jobs that ended long ago; of a job in bulk what it came to goes first, a part at a time
-- transition: none; they go
-- fenced by: nothing
-- locks: the rows (skipping locked ones), and those of their targets
CREATE FUNCTION forget_maintenance(p_seconds bigint, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
  v_targets int;
BEGIN
  DELETE FROM job_target t WHERE (t.job_id, t.target_id, t.tenant_id) IN (
    SELECT y.job_id, y.target_id, y.tenant_id FROM maintenance_job x JOIN job_target y ON y.job_id = x.key::uuid AND y.tenant_id = x.tenant_id
    WHERE x.finished_at < clock() - p_seconds * interval '1 s' AND x.kind = 'bulk' LIMIT p_limit);
  GET DIAGNOSTICS v_targets = ROW_COUNT;
  IF v_targets = p_limit THEN RETURN v_targets; END IF;
  DELETE FROM maintenance_job j WHERE (j.kind, j.key, j.tenant_id) IN (
    SELECT x.kind, x.key, x.tenant_id FROM maintenance_job x WHERE x.finished_at < clock() - p_seconds * interval '1 s' ORDER BY x.finished_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
