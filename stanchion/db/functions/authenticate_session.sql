-- purpose: whose session this is and what they may do now; one probe by the hash, whoever asks; its use is noted once a minute
-- transition: none
-- fenced by: nothing
-- locks: the session's row, at most once a minute
CREATE FUNCTION authenticate_session(p_hash bytea, p_kind text) RETURNS TABLE (tenant_id uuid, tenant text, name text, role text, rights text[], teams text[], person_id uuid, session_id uuid, csrf_secret bytea, expires_at timestamptz)
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  s session;
BEGIN
  SELECT * INTO s FROM session x WHERE x.token_hash = p_hash AND x.kind = p_kind AND x.revoked_at IS NULL AND x.expires_at > clock() AND x.used_at + x.idle_seconds * interval '1 s' > clock();
  IF NOT FOUND THEN RETURN; END IF;
  IF s.used_at < clock() - interval '1 minute' THEN
    UPDATE session x SET used_at = clock() WHERE x.session_id = s.session_id AND x.tenant_id = s.tenant_id AND x.revoked_at IS NULL;
  END IF;
  RETURN QUERY SELECT s.tenant_id, t.name, p.name, p.role, p.rights, ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id ORDER BY m.team), p.person_id, s.session_id, s.csrf_secret, s.expires_at
    FROM person p JOIN tenant t ON t.tenant_id = p.tenant_id WHERE p.person_id = s.person_id AND p.tenant_id = s.tenant_id AND p.disabled_at IS NULL;
END $$;
