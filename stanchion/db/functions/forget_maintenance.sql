-- purpose: rows of jobs that ended long ago
-- transition: none; they go
-- fenced by: nothing
-- locks: the rows (skipping locked ones)
CREATE FUNCTION forget_maintenance(p_seconds bigint, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM maintenance_job j WHERE (j.kind, j.key, j.tenant_id) IN (
    SELECT x.kind, x.key, x.tenant_id FROM maintenance_job x WHERE x.finished_at < clock() - p_seconds * interval '1 s' ORDER BY x.finished_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
