-- purpose: the event of what happened to an operation
-- transition: none
-- fenced by: the caller; a fence that is given is checked by the event table
-- locks: none
CREATE FUNCTION note_operation(o operation, p_kind text, p_fence bigint, p_actor text, p_body jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body)
  VALUES (o.tenant_id, o.run_id, o.step_id, p_kind, o.version, p_fence, o.updated_at, p_actor, jsonb_build_object('operation', o.operation_id) || coalesce(jsonb_strip_nulls(p_body), '{}'))
$$;
