-- purpose: end a session, one's own or (without a person) anybody's in the tenant; ending it again changes nothing; false when there is none
-- transition: none
-- fenced by: nothing
-- locks: the session's row; the audit chain last
CREATE FUNCTION end_session(p_tenant uuid, p_session uuid, p_person uuid, p_actor text, p_action text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_name text := (SELECT p.name FROM session s JOIN person p ON p.person_id = s.person_id AND p.tenant_id = s.tenant_id
    WHERE s.session_id = p_session AND s.tenant_id = p_tenant AND (p_person IS NULL OR s.person_id = p_person));
BEGIN
  IF v_name IS NULL THEN RETURN false; END IF;
  UPDATE session s SET revoked_at = clock() WHERE s.session_id = p_session AND s.tenant_id = p_tenant AND s.revoked_at IS NULL;
  IF FOUND THEN PERFORM note_act(p_tenant, p_actor, p_action, v_name, jsonb_build_object('session', p_session)); END IF;
  RETURN true;
END $$;
