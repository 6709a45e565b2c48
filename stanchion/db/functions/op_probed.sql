-- purpose: what the outside system said about an operation of unknown fate; only what is conclusive moves it
-- transition: operation unknown -> confirmed|prepared|not_done
-- fenced by: the step's own fence
-- locks: the step, the operation, its task's budget, then the run (shared)
CREATE FUNCTION op_probed(p_worker uuid, p_step uuid, p_fence bigint, p_operation uuid, p_verdict text, p_receipt jsonb, p_provider_id text, p_detail jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_state text;
  v_wanted boolean;
  s step;
  o operation;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'op_probed');
  IF NOT FOUND THEN RETURN 'stale'; END IF;
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = s.tenant_id AND x.step_id = s.step_id FOR NO KEY UPDATE;
  IF o.state IS DISTINCT FROM 'unknown' THEN RETURN coalesce(o.state, 'gone'); END IF;
  v_now := clock();
  IF o.cost IS NOT NULL THEN PERFORM hold_costs(o); END IF;
  v_wanted := (SELECT r.state IN ('created', 'running') OR s.kind = 'undo' FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id FOR SHARE);
  -- not found proves nothing while the request may still land; the same key makes sending it again harmless
  v_state := CASE WHEN p_verdict = 'done' THEN 'confirmed'
    WHEN p_verdict = 'not_done' AND v_wanted AND coalesce(o.key_until > v_now + interval '1 s', false) THEN 'prepared'
    WHEN p_verdict = 'not_done' AND o.lands_until < v_now THEN CASE WHEN v_wanted THEN 'prepared' ELSE 'not_done' END
    ELSE 'unknown' END;
  PERFORM add_probe(o, format('worker %s', p_worker), p_verdict, v_state <> 'unknown', p_detail);
  IF v_state = 'unknown' THEN RETURN v_state; END IF;
  UPDATE operation x SET state = v_state, version = x.version + 1, proof = s.fence, updated_at = v_now, receipt = p_receipt, provider_id = coalesce(p_provider_id, x.provider_id),
    confirmed_at = CASE WHEN v_state = 'confirmed' THEN v_now END, unknown_since = NULL
  WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  UPDATE step x SET doubts = x.doubts - 1, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
  PERFORM note_operation(o, operation_event(v_state), p_fence, NULL, jsonb_build_object('verdict', p_verdict, 'probes', o.probes));
  -- by then it can't land any more; sent again under a key that holds a second one back it may be done already, and stays paid
  IF v_state IN ('prepared', 'not_done') AND o.lands_until < v_now THEN PERFORM give_cost_back(o, s.fence); END IF;
  PERFORM note_compensated(o);
  RETURN o.state;
END $$;
