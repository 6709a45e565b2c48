-- purpose: put a person into a team, or take them out; false when there is no such person
-- transition: none
-- fenced by: the primary key
-- locks: the row of the member; the audit chain last
CREATE FUNCTION put_in_team(p_tenant uuid, p_team text, p_name text, p_in boolean, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_person uuid := (SELECT p.person_id FROM person p WHERE p.tenant_id = p_tenant AND p.name = p_name);
BEGIN
  IF v_person IS NULL THEN RETURN false; END IF;
  IF p_in THEN
    INSERT INTO team_member (tenant_id, team, person_id) VALUES (p_tenant, p_team, v_person) ON CONFLICT DO NOTHING;
  ELSE
    DELETE FROM team_member m WHERE m.tenant_id = p_tenant AND m.team = p_team AND m.person_id = v_person;
  END IF;
  IF FOUND THEN PERFORM note_act(p_tenant, p_actor, CASE WHEN p_in THEN 'team.add' ELSE 'team.remove' END, p_team, jsonb_build_object('person', p_name)); END IF;
  RETURN true;
END $$;
