-- purpose: how many approve it, of those who still may: whoever lost the role, left the team or was disabled does not count
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION votes_for(a approval) RETURNS bigint LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT count(DISTINCT v.person_id) FROM approval_vote v
  WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.vote = 'approve' AND v.payload_hash = a.payload_hash AND voter_fault(a, v.person_id) IS NULL
$$;
