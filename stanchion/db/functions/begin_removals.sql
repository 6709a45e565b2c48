-- purpose: what to remove from the store now; from here on until it is noted as removed, no version can name this content
-- transition: none
-- fenced by: the removal's row, which a flip locks too
-- locks: removals (skipping locked ones)
CREATE FUNCTION begin_removals(p_again interval, p_limit int) RETURNS TABLE (tenant_id uuid, sha256 bytea) LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE object_removal r SET begun_at = clock() WHERE (r.sha256, r.tenant_id) IN (
    SELECT x.sha256, x.tenant_id FROM object_removal x WHERE x.removed_at IS NULL AND (x.begun_at IS NULL OR x.begun_at < clock() - p_again) ORDER BY x.asked_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED)
  RETURNING r.tenant_id, r.sha256
$$;
