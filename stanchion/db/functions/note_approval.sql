-- purpose: the event of what happened to an approval
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION note_approval(a approval, p_kind text, p_actor text, p_body jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body)
  VALUES (a.tenant_id, a.run_id, a.step_id, p_kind, a.version, a.updated_at, p_actor, jsonb_build_object('approval', a.approval_id) || coalesce(jsonb_strip_nulls(p_body), '{}'))
$$;
