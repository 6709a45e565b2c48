-- purpose: content has left the store; who began to upload the same before this moment has to put it again
-- transition: none
-- fenced by: the removal having begun
-- locks: the removal
CREATE FUNCTION note_removed(p_tenant uuid, p_sha256 bytea) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE object_removal r SET removed_at = clock() WHERE r.sha256 = p_sha256 AND r.tenant_id = p_tenant AND r.begun_at IS NOT NULL AND r.removed_at IS NULL
$$;
