-- purpose: forget removals that ended so long ago that no upload from before them can still be flipped
-- transition: none
-- fenced by: the grace time, after which an upload is abandoned
-- locks: removals
CREATE FUNCTION forget_removals(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM object_removal r WHERE (r.sha256, r.tenant_id) IN (
    SELECT x.sha256, x.tenant_id FROM object_removal x WHERE x.removed_at < clock() - p_older AND NOT EXISTS (SELECT FROM artifact_version v WHERE v.state = 'pending' AND v.created_at <= x.removed_at)
    ORDER BY x.removed_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
