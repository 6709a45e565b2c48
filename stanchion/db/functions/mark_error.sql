-- purpose: somebody says of a group of errors that it is known, who looks after it, and where more stands; NULL leaves a field as it is, an empty text clears it. False: there is none
-- transition: none
-- fenced by: nothing
-- locks: the group; the audit chain last
CREATE FUNCTION mark_error(p_tenant uuid, p_group uuid, p_known boolean, p_note text, p_link text, p_assigned_to text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE error_group g SET known = coalesce(p_known, g.known), note = nullif(coalesce(p_note, g.note), ''), link = nullif(coalesce(p_link, g.link), ''), assigned_to = nullif(coalesce(p_assigned_to, g.assigned_to), ''), marked_by = p_actor, marked_at = clock()
  WHERE g.group_id = p_group AND g.tenant_id = p_tenant;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'error.mark', p_group::text, jsonb_build_object('known', p_known, 'note', p_note, 'link', p_link, 'assigned_to', p_assigned_to));
  RETURN true;
END $$;
