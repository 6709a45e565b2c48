-- purpose: ask for content to be removed that no available version of the tenant names; returns how many are asked for anew
-- transition: none
-- fenced by: the object's lock: whoever names the content takes it too
-- locks: objects by hash
CREATE FUNCTION ask_removals(p_tenant uuid, p_hashes bytea[]) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int := 0;
  v_hash bytea;
BEGIN
  FOR v_hash IN SELECT DISTINCT h FROM unnest(p_hashes) h ORDER BY h LOOP
    -- most of what a sweep looks at is named: only what is not is worth a lock, of which a transaction has a few thousand
    CONTINUE WHEN EXISTS (SELECT FROM artifact_version v WHERE v.sha256 = v_hash AND v.tenant_id = p_tenant AND v.state = 'available');
    PERFORM lock_object(p_tenant, v_hash);
    IF NOT EXISTS (SELECT FROM artifact_version v WHERE v.sha256 = v_hash AND v.tenant_id = p_tenant AND v.state = 'available') THEN
      INSERT INTO object_removal (tenant_id, sha256) VALUES (p_tenant, v_hash)
      ON CONFLICT (sha256, tenant_id) DO UPDATE SET asked_at = clock(), begun_at = NULL, removed_at = NULL WHERE object_removal.removed_at IS NOT NULL;
      IF FOUND THEN v_n := v_n + 1; END IF;
    END IF;
  END LOOP;
  RETURN v_n;
END $$;
