-- purpose: why somebody has no vote on an approval; NULL when they have. Whoever delegates passes the vote on and keeps none, whoever edited it made it
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION voter_fault(a approval, p_person uuid) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE
    WHEN p.person_id IS NULL OR p.disabled_at IS NOT NULL OR p.role NOT IN ('approver', 'admin', 'platform') THEN 'role'
    WHEN a.four_eyes AND 'person:' || p.name IN (a.requested_by, a.edited_by) THEN 'requester'
    WHEN EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.person_id = p.person_id AND v.vote = 'delegate') THEN 'delegated'
    WHEN a.people = '{}' AND a.teams = '{}' OR p.name = ANY (a.people) THEN NULL
    WHEN EXISTS (SELECT FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id AND m.team = ANY (a.teams)) THEN NULL
    WHEN EXISTS (SELECT FROM approval_vote v JOIN person g ON g.person_id = v.person_id AND g.tenant_id = v.tenant_id WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.vote = 'delegate' AND v.delegate_to = p.name
      AND g.disabled_at IS NULL AND g.role IN ('approver', 'admin', 'platform')) THEN NULL
    ELSE 'not asked' END
  FROM (SELECT 1) one LEFT JOIN person p ON p.person_id = p_person AND p.tenant_id = a.tenant_id
$$;
