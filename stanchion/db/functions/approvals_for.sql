-- purpose: what waits for a person's decision at this moment, the least time left first
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION approvals_for(p_tenant uuid, p_person uuid, p_after uuid, p_limit int) RETURNS TABLE (approval_id uuid) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH me AS MATERIALIZED (
    SELECT p.name, 'person:' || p.name AS subject, ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id) AS teams,
      ARRAY(SELECT v.approval_id FROM approval_vote v WHERE v.delegate_to = p.name AND v.tenant_id = p.tenant_id) AS passed_on
    FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant
  )
  SELECT o.approval_id FROM (
    -- most are for others: that is seen by the row alone, before anything is looked up for it
    SELECT a.approval_id, a.expires_at, a AS whole FROM approval a, me
    WHERE a.tenant_id = p_tenant AND a.state = 'requested' AND a.expires_at > clock()
      AND (p_after IS NULL OR (a.expires_at, a.approval_id) > ((SELECT l.expires_at FROM approval l WHERE l.approval_id = p_after AND l.tenant_id = p_tenant), p_after))
      AND (a.people = '{}' AND a.teams = '{}' OR me.name = ANY (a.people) OR a.teams && me.teams OR a.approval_id = ANY (me.passed_on))
      AND NOT (a.four_eyes AND (me.subject = a.requested_by OR me.subject IS NOT DISTINCT FROM a.edited_by))
    ORDER BY a.expires_at, a.approval_id OFFSET 0  -- sorted before it is looked at, so that a page looks at no more than a page
  ) o
  WHERE no_say(o.whole, p_person) IS NULL ORDER BY o.expires_at, o.approval_id LIMIT p_limit
$$;
