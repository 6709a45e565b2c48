-- purpose: the people of a tenant by name, with their teams
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_people(p_tenant uuid, p_after text, p_limit int) RETURNS TABLE (person_id uuid, name text, display_name text, email text, issuer text, role text, rights text[], teams text[], created_at timestamptz, disabled_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT p.person_id, p.name, p.display_name, p.email, p.issuer, p.role, p.rights, ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id ORDER BY m.team), p.created_at, p.disabled_at
  FROM person p WHERE p.tenant_id = p_tenant AND (p_after IS NULL OR p.name > p_after) ORDER BY p.name LIMIT p_limit
$$;
