-- purpose: why a person has no say about an approval that is open: what voter_fault says, or said (they have decided, or passed their vote on); NULL: it waits for them
-- transition: none
-- fenced by: nothing: a vote looks again, under the lock
-- locks: none
CREATE FUNCTION no_say(a approval, p_person uuid) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE WHEN EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.person_id = p_person AND v.vote IN ('approve', 'reject', 'delegate')) THEN 'said'
    ELSE voter_fault(a, p_person) END
$$;
