-- purpose: sessions of a person, or of all people of a tenant, newest first, without what opens them
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_sessions(p_tenant uuid, p_person uuid, p_before uuid, p_limit int) RETURNS TABLE (session_id uuid, name text, kind text, created_at timestamptz, used_at timestamptz, expires_at timestamptz, revoked_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.session_id, p.name, s.kind, s.created_at, s.used_at, s.expires_at, s.revoked_at FROM session s JOIN person p ON p.person_id = s.person_id AND p.tenant_id = s.tenant_id
  WHERE s.tenant_id = p_tenant AND (p_person IS NULL OR s.person_id = p_person) AND (p_before IS NULL OR s.session_id < p_before) ORDER BY s.session_id DESC LIMIT p_limit
$$;
