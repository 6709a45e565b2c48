-- purpose: give a person a role and rights beside it; only one whose present role the caller outranks: done, missing, or beyond
-- transition: none
-- fenced by: the roles that the caller may touch, compared under the person's lock
-- locks: the person; the audit chain last
CREATE FUNCTION set_role(p_tenant uuid, p_name text, p_role text, p_rights text[], p_may text[], p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  x person;
BEGIN
  SELECT * INTO x FROM person p WHERE p.tenant_id = p_tenant AND p.name = p_name FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN 'missing'; END IF;
  IF x.role <> ALL (p_may) OR p_role <> ALL (p_may) THEN RETURN 'beyond'; END IF;
  IF x.role = p_role AND x.rights = p_rights THEN RETURN 'done'; END IF;
  UPDATE person p SET role = p_role, rights = p_rights WHERE p.person_id = x.person_id AND p.tenant_id = p_tenant;
  PERFORM note_act(p_tenant, p_actor, 'person.role', p_name, jsonb_build_object('before', x.role, 'after', p_role, 'rights_before', x.rights, 'rights_after', p_rights));
  RETURN 'done';
END $$;
