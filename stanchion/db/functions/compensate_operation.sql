-- purpose: a person wants an effect to be undone
-- transition: birth: step ready, of kind undo
-- fenced by: the operation being confirmed, and nothing undoing it already
-- locks: the operation; the audit chain last
CREATE FUNCTION compensate_operation(p_tenant uuid, p_operation uuid, p_reason text, p_actor text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_step uuid;
  o operation;
BEGIN
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such operation in this tenant'; END IF;
  SELECT s.step_id INTO v_step FROM step s WHERE s.run_id = o.run_id AND s.kind = 'undo' AND (s.input->>'operation')::uuid = o.operation_id AND s.state NOT IN ('failed', 'cancelled') LIMIT 1;
  IF FOUND THEN RETURN v_step; END IF;
  IF o.state <> 'confirmed' OR o.undo_kind IS NULL THEN RETURN NULL; END IF;
  v_step := undo_operation(o, p_actor, p_reason);
  PERFORM note_act(p_tenant, p_actor, 'operation.compensate', p_operation::text, jsonb_build_object('reason', p_reason));
  RETURN v_step;
END $$;
