-- purpose: what waits for a person's decision at this moment, the oldest first
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION approvals_for(p_tenant uuid, p_person uuid, p_after uuid, p_limit int) RETURNS TABLE (approval_id uuid) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT a.approval_id FROM approval a, (SELECT p.name, ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id) AS teams FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant) me
  -- most are for others: that is seen without asking for each of them
  WHERE (a.people = '{}' AND a.teams = '{}' OR me.name = ANY (a.people) OR a.teams && me.teams OR EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.delegate_to = me.name))
    AND a.tenant_id = p_tenant AND a.state = 'requested' AND a.expires_at > clock() AND (p_after IS NULL OR a.approval_id > p_after) AND voter_fault(a, p_person) IS NULL
    AND NOT EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.person_id = p_person AND v.vote IN ('approve', 'reject', 'delegate'))
  ORDER BY a.approval_id LIMIT p_limit
$$;
