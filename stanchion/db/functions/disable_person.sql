-- purpose: keep a person out, and end all their sessions, or let them in again: done, missing, or beyond
-- transition: none
-- fenced by: the roles that the caller may touch, compared under the person's lock
-- locks: the person, their sessions; the audit chain last
CREATE FUNCTION disable_person(p_tenant uuid, p_name text, p_disabled boolean, p_may text[], p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ended int := 0;
  x person;
BEGIN
  SELECT * INTO x FROM person p WHERE p.tenant_id = p_tenant AND p.name = p_name FOR UPDATE;
  IF NOT FOUND THEN RETURN 'missing'; END IF;
  IF x.role <> ALL (p_may) THEN RETURN 'beyond'; END IF;
  IF (x.disabled_at IS NOT NULL) = p_disabled THEN RETURN 'done'; END IF;
  UPDATE person p SET disabled_at = CASE WHEN p_disabled THEN clock() END WHERE p.person_id = x.person_id AND p.tenant_id = p_tenant;
  IF p_disabled THEN
    UPDATE session s SET revoked_at = clock() WHERE s.person_id = x.person_id AND s.tenant_id = p_tenant AND s.revoked_at IS NULL;
    GET DIAGNOSTICS v_ended = ROW_COUNT;
  END IF;
  PERFORM note_act(p_tenant, p_actor, CASE WHEN p_disabled THEN 'person.disable' ELSE 'person.enable' END, p_name, jsonb_build_object('sessions_ended', v_ended));
  RETURN 'done';
END $$;
