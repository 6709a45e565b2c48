-- purpose: what the holder learned of a request that it sent: a receipt, a refusal, that it never left, or nothing
-- transition: operation dispatched -> confirmed|refused|prepared|unknown; with the last doubt gone its step may settle again
-- fenced by: the step's own fence; a stale receipt changes nothing and is kept beside the operation
-- locks: the step, then the operation, its task's budget, then what it compensates
CREATE FUNCTION op_settle(p_worker uuid, p_step uuid, p_fence bigint, p_operation uuid, p_state text, p_receipt jsonb, p_provider_id text, p_error jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  s step;
  o operation;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'op_settle');
  IF NOT FOUND THEN
    SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.step_id = p_step FOR NO KEY UPDATE;
    IF o.state = 'unknown' THEN PERFORM add_probe(o, format('worker %s, too late', p_worker), CASE p_state WHEN 'confirmed' THEN 'done' ELSE 'cant_tell' END, false, jsonb_strip_nulls(jsonb_build_object('receipt', p_receipt, 'provider_id', p_provider_id, 'error', p_error))); END IF;
    RETURN 'stale';
  END IF;
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = s.tenant_id AND x.step_id = s.step_id FOR NO KEY UPDATE;
  IF o.state IS DISTINCT FROM 'dispatched' THEN RETURN coalesce(o.state, 'gone'); END IF;
  v_now := clock();
  -- that this one was refused says nothing of one before it, which may be done or still land
  IF p_state = 'refused' AND o.sends > 1 THEN p_state := 'unknown'; END IF;
  UPDATE operation x SET state = p_state, version = x.version + 1, proof = s.fence, updated_at = v_now, receipt = p_receipt, provider_id = p_provider_id, error = p_error,
    sends = x.sends - (p_state = 'prepared')::int, confirmed_at = CASE WHEN p_state = 'confirmed' THEN v_now END, verified_at = CASE WHEN p_state = 'confirmed' THEN v_now END,
    unknown_since = CASE WHEN p_state = 'unknown' THEN v_now END
  WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  IF p_state <> 'unknown' THEN UPDATE step x SET doubts = x.doubts - 1, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id; END IF;
  PERFORM note_operation(o, operation_event(p_state), p_fence, NULL, jsonb_build_object('error', p_error));
  -- it was not done; what was charged for an earlier request, which may have been, stays
  IF o.cost IS NOT NULL AND (p_state = 'refused' OR p_state = 'prepared' AND EXISTS (SELECT FROM spending x WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id AND x.amount > 0 AND x.at = o.dispatched_at)) THEN
    PERFORM give_cost_back(o, s.fence);
  END IF;
  PERFORM note_compensated(o);
  RETURN o.state;
END $$;
