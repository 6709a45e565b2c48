-- purpose: a person says what became of an operation of unknown fate, why, and by what that is proven
-- transition: operation unknown -> confirmed|prepared|not_done; with the last doubt gone its step goes on
-- fenced by: the operation being unknown
-- locks: the step, the operation, its task's budget, then the run (shared); the audit chain last
CREATE FUNCTION tell_operation(p_tenant uuid, p_operation uuid, p_done boolean, p_reason text, p_proof text, p_receipt jsonb, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_state text;
  s step;
  o operation;
BEGIN
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = p_tenant;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such operation in this tenant'; END IF;
  SELECT x.* INTO s FROM step x WHERE x.step_id = o.step_id AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF o.state <> 'unknown' THEN RETURN o.state; END IF;
  v_now := clock();
  IF o.cost IS NOT NULL THEN PERFORM hold_costs(o); END IF;
  v_state := CASE WHEN p_done THEN 'confirmed' WHEN (SELECT (r.state = 'cancelling' AND s.kind <> 'undo') OR s.state IN ('succeeded', 'failed', 'cancelled') FROM run r WHERE r.run_id = o.run_id AND r.tenant_id = p_tenant FOR SHARE) THEN 'not_done' ELSE 'prepared' END;
  PERFORM add_probe(o, p_actor, CASE WHEN p_done THEN 'done' ELSE 'not_done' END, true, jsonb_build_object('reason', p_reason, 'proof', p_proof));
  UPDATE operation x SET state = v_state, version = x.version + 1, proof = -3, settled_by = p_actor, updated_at = v_now, receipt = CASE WHEN p_done THEN p_receipt END,
    confirmed_at = CASE WHEN p_done THEN v_now END, unknown_since = NULL
  WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  PERFORM note_operation(o, operation_event(v_state), NULL, p_actor, jsonb_build_object('reason', p_reason, 'proof', p_proof));
  IF NOT p_done THEN PERFORM give_cost_back(o, NULL); END IF;
  PERFORM note_compensated(o);
  IF s.state = 'unknown' AND s.doubts = 1 THEN
    s.doubts := 0;
    PERFORM go_on(s, 0, p_actor, jsonb_build_object('operation', o.operation_id));
  ELSIF s.doubts > 0 THEN
    -- a probe holds the step at this moment, or it has more in doubt
    UPDATE step x SET doubts = x.doubts - 1, proof = CASE WHEN x.state = 'unknown' THEN 0 ELSE -3 END WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
  END IF;
  PERFORM note_act(p_tenant, p_actor, CASE WHEN p_done THEN 'operation.mark_done' ELSE 'operation.mark_not_done' END, p_operation::text, jsonb_build_object('reason', p_reason, 'proof', p_proof));
  RETURN o.state;
END $$;
