-- purpose: the event of a booking, or of one that was refused
-- transition: none
-- fenced by: the caller; a fence that is given is checked by the event table
-- locks: none
CREATE FUNCTION note_budget(p_tenant uuid, p_run uuid, p_step uuid, p_kind text, p_fence bigint, p_body jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO event (tenant_id, run_id, step_id, kind, fence, body) VALUES (p_tenant, p_run, p_step, p_kind, p_fence, jsonb_strip_nulls(p_body))
$$;
