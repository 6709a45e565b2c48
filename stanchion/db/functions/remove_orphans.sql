-- purpose: remove stored values that a process put away and never named, since it died or was refused
-- transition: none
-- fenced by: the rows that name them, and a day of grace
-- locks: the blobs' rows
CREATE FUNCTION remove_orphans(p_limit int) RETURNS int LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT remove_blobs(ARRAY(
    SELECT b.sha256 FROM blob b WHERE b.created_at < (SELECT clock()) - interval '1 day'
      AND NOT EXISTS (SELECT FROM result x WHERE x.blob = b.sha256 AND x.tenant_id = b.tenant_id)
      AND NOT EXISTS (SELECT FROM operation x WHERE x.payload_blob = b.sha256 AND x.tenant_id = b.tenant_id)
      AND NOT EXISTS (SELECT FROM step x WHERE x.input_blob = b.sha256 AND x.tenant_id = b.tenant_id)
      AND NOT EXISTS (SELECT FROM task x WHERE x.input_blob = b.sha256 AND x.tenant_id = b.tenant_id)
    LIMIT p_limit))
$$;
