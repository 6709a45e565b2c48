-- purpose: what waits for a person's decision at this moment, the oldest first
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION approvals_for(p_tenant uuid, p_person uuid, p_after uuid, p_limit int) RETURNS TABLE (approval_id uuid) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT a.approval_id FROM approval a
  WHERE a.tenant_id = p_tenant AND a.state = 'requested' AND a.expires_at > clock() AND (p_after IS NULL OR a.approval_id > p_after) AND voter_fault(a, p_person) IS NULL
    AND NOT EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.person_id = p_person AND v.vote <> 'ask_back')
  ORDER BY a.approval_id LIMIT p_limit
$$;
