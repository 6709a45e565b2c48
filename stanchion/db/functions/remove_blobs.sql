-- purpose: remove stored values that nothing names any more; one that was stored within the last day may be about to be named
-- transition: none
-- fenced by: the rows that name it
-- locks: the blobs' rows
CREATE FUNCTION remove_blobs(p_blobs bytea[]) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM blob b WHERE b.sha256 = ANY (p_blobs) AND b.created_at < clock() - interval '1 day'
    AND NOT EXISTS (SELECT FROM result x WHERE x.blob = b.sha256 AND x.tenant_id = b.tenant_id)
    AND NOT EXISTS (SELECT FROM operation x WHERE x.payload_blob = b.sha256 AND x.tenant_id = b.tenant_id)
    AND NOT EXISTS (SELECT FROM step x WHERE x.input_blob = b.sha256 AND x.tenant_id = b.tenant_id)
    AND NOT EXISTS (SELECT FROM task x WHERE x.input_blob = b.sha256 AND x.tenant_id = b.tenant_id);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
