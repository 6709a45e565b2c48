-- The hash of an entry of the audit log covers another text now (decision 0015), so the chains that are there are hashed
-- anew, as lane 0. What they were before is checked and noted: the last entry of each names the head that the chain had,
-- and the first entry that did not fit, if there is one.
ALTER TABLE stanchion.audit DISABLE TRIGGER append_only;

DO $$
DECLARE
  v_tenant uuid;
  a stanchion.audit;
  v_entries bigint;
  v_before bytea;
  v_previous bytea;
  v_broken bigint;
BEGIN
  SET LOCAL DateStyle = 'ISO, MDY';  -- in which the old text had its times
  FOR v_tenant IN SELECT DISTINCT x.tenant_id FROM stanchion.audit x LOOP
    v_entries := 0;
    v_before := NULL;
    v_previous := NULL;
    v_broken := NULL;
    FOR a IN SELECT x.* FROM stanchion.audit x WHERE x.tenant_id = v_tenant ORDER BY x.audit_id LOOP
      IF v_broken IS NULL AND (a.previous_hash IS DISTINCT FROM v_before
          OR a.hash IS DISTINCT FROM sha256(coalesce(a.previous_hash, ''::bytea) || convert_to(concat_ws(E'\x1f', a.tenant_id, a.at AT TIME ZONE 'UTC', a.actor, a.action, a.target, a.detail), 'UTF8'))) THEN
        v_broken := a.audit_id;
      END IF;
      v_entries := v_entries + 1;
      v_before := a.hash;
      UPDATE stanchion.audit x SET previous_hash = v_previous, hash = sha256(coalesce(v_previous, ''::bytea) || convert_to(
        jsonb_build_array(a.tenant_id, a.lane, a.audit_id, to_char(a.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), a.actor, a.action, a.target, a.detail)::text, 'UTF8'))
      WHERE x.audit_id = a.audit_id AND x.tenant_id = v_tenant RETURNING x.hash INTO v_previous;
    END LOOP;
    INSERT INTO stanchion.audit (tenant_id, actor, action, target, detail)
    VALUES (v_tenant, 'migration', 'audit.rehash', '0002', jsonb_strip_nulls(jsonb_build_object('entries', v_entries, 'head', encode(v_before, 'hex'), 'broken_at', v_broken)));
  END LOOP;
END $$;

ALTER TABLE stanchion.audit ENABLE TRIGGER append_only;
