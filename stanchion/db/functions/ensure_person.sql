-- purpose: the person who signs in, made at the first time; what their provider says of them is kept, a changed role and changed teams are noted
-- transition: none
-- fenced by: the unique keys (tenant, name) and (tenant, issuer, subject)
-- locks: the person, then their rows in teams; the audit chain last
CREATE FUNCTION ensure_person(p_tenant uuid, p_name text, p_display text, p_email text, p_issuer text, p_subject text, p_role text, p_teams text[], p_governed text[], p_actor text)
RETURNS TABLE (person_id uuid, name text, role text, disabled boolean) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_name text := p_name;
  v_was text;
  v_teams text[];
  v_acts jsonb := '[]';
  v_act jsonb;
  x person;
BEGIN
  -- two first sign-ins of one person at once are one after the other
  PERFORM pg_advisory_xact_lock(hashtextextended(concat('person:', p_tenant, ':', p_issuer, ':', coalesce(p_subject, p_name)), 0));
  SELECT * INTO x FROM person p WHERE p.tenant_id = p_tenant AND (CASE WHEN p_issuer IS NULL THEN p.name = p_name AND p.issuer IS NULL ELSE p.issuer = p_issuer AND p.subject = p_subject END) FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    FOR i IN 2..1000 LOOP
      INSERT INTO person (person_id, tenant_id, name, display_name, email, issuer, subject, role)
      VALUES (uuidv7(), p_tenant, v_name, p_display, p_email, p_issuer, p_subject, p_role) ON CONFLICT (tenant_id, name) DO NOTHING RETURNING * INTO x;
      EXIT WHEN FOUND;
      -- the dev login never becomes somebody whom a provider vouches for; a provider's person never takes the name of another
      IF p_issuer IS NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-PERSON-02 this name belongs to somebody who signs in elsewhere'; END IF;
      v_name := left(p_name, 58) || '-' || i;
    END LOOP;
    v_acts := v_acts || jsonb_build_object('action', 'person.create', 'detail', jsonb_build_object('person', x.person_id, 'role', x.role, 'issuer', p_issuer));
  ELSIF p_issuer IS NOT NULL THEN
    v_was := x.role;
    UPDATE person p SET display_name = p_display, email = p_email, role = p_role WHERE p.person_id = x.person_id AND p.tenant_id = p_tenant RETURNING * INTO x;
    IF v_was <> x.role THEN v_acts := v_acts || jsonb_build_object('action', 'person.role', 'detail', jsonb_build_object('before', v_was, 'after', x.role, 'issuer', p_issuer)); END IF;
  END IF;
  -- the provider's word holds for the teams that it governs, nobody else's are touched
  v_teams := ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = x.person_id AND m.tenant_id = p_tenant AND m.team = ANY (p_governed) ORDER BY m.team);
  IF v_teams IS DISTINCT FROM ARRAY(SELECT DISTINCT g FROM unnest(p_teams) g WHERE g = ANY (p_governed) ORDER BY g) THEN
    DELETE FROM team_member m WHERE m.person_id = x.person_id AND m.tenant_id = p_tenant AND m.team = ANY (p_governed) AND m.team <> ALL (p_teams);
    INSERT INTO team_member (tenant_id, team, person_id) SELECT DISTINCT p_tenant, g, x.person_id FROM unnest(p_teams) g WHERE g = ANY (p_governed) ON CONFLICT DO NOTHING;
    v_acts := v_acts || jsonb_build_object('action', 'person.teams', 'detail', jsonb_build_object('before', v_teams, 'after', p_teams, 'issuer', p_issuer));
  END IF;
  -- last: an entry holds the audit log until the end, and nobody may wait for a row behind it
  FOR v_act IN SELECT a.value FROM jsonb_array_elements(v_acts) WITH ORDINALITY a ORDER BY a.ordinality LOOP
    PERFORM note_act(p_tenant, p_actor, v_act->>'action', x.name, v_act->'detail');
  END LOOP;
  RETURN QUERY SELECT x.person_id, x.name, x.role, x.disabled_at IS NOT NULL;
END $$;
