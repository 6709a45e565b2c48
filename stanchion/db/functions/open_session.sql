-- purpose: a session of a person; only hashes of what opens it are kept; null for a person who is disabled; sessions that ended long ago go
-- transition: none
-- fenced by: the unique key of the token's hash
-- locks: the person, sessions that go; the audit chain last
CREATE FUNCTION open_session(p_tenant uuid, p_person uuid, p_kind text, p_hash bytea, p_csrf bytea, p_seconds int, p_idle_seconds int, p_by text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_name text;
  v_id uuid;
BEGIN
  -- against a disable at the same moment: whoever is second sees the first
  SELECT p.name INTO v_name FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant AND p.disabled_at IS NULL FOR SHARE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  DELETE FROM session s WHERE s.person_id = p_person AND s.tenant_id = p_tenant AND (s.expires_at < clock() - interval '30 days' OR s.revoked_at < clock() - interval '30 days');
  INSERT INTO session (session_id, tenant_id, person_id, kind, token_hash, csrf_secret, idle_seconds, expires_at)
  VALUES (uuidv7(), p_tenant, p_person, p_kind, p_hash, p_csrf, p_idle_seconds, clock() + p_seconds * interval '1 s') RETURNING session_id INTO v_id;
  PERFORM note_act(p_tenant, 'person:' || v_name, 'session.open', v_name, jsonb_build_object('session', v_id, 'kind', p_kind, 'by', p_by));
  RETURN v_id;
END $$;
