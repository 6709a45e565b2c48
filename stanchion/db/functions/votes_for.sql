-- purpose: how many approve it, of those who still may: whoever lost the role, was disabled or asked for it does not count
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION votes_for(a approval) RETURNS bigint LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT count(DISTINCT v.person_id) FROM approval_vote v JOIN person p ON p.person_id = v.person_id AND p.tenant_id = v.tenant_id
  WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.vote = 'approve' AND v.payload_hash = a.payload_hash
    AND p.disabled_at IS NULL AND p.role IN ('approver', 'admin', 'platform') AND NOT (a.four_eyes AND 'person:' || p.name = a.requested_by)
$$;
