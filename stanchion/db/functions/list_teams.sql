-- purpose: the teams of a tenant with their members; a team is there while somebody is in it
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_teams(p_tenant uuid, p_after text, p_limit int) RETURNS TABLE (team text, members text[]) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT m.team, array_agg(p.name ORDER BY p.name) FROM team_member m JOIN person p ON p.person_id = m.person_id AND p.tenant_id = m.tenant_id
  WHERE m.tenant_id = p_tenant AND (p_after IS NULL OR m.team > p_after) GROUP BY m.team ORDER BY m.team LIMIT p_limit
$$;
