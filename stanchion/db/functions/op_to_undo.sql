-- purpose: what a step of kind undo is to undo
-- transition: none
-- fenced by: the step's own fence
-- locks: none
CREATE FUNCTION op_to_undo(p_step uuid, p_fence bigint) RETURNS TABLE (operation_id uuid, kind text, undo_kind text, payload jsonb, payload_blob bytea, receipt jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.operation_id, o.kind, o.undo_kind, o.payload, o.payload_blob, o.receipt
  FROM step s JOIN operation o ON o.operation_id = (s.input->>'operation')::uuid AND o.tenant_id = s.tenant_id
  WHERE s.step_id = p_step AND s.fence = p_fence AND s.kind = 'undo'
$$;
