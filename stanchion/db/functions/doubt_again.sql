-- purpose: an operation that was to be sent again is not: what became of the requests before is unknown again
-- transition: operation prepared -> unknown
-- fenced by: the caller
-- locks: the caller holds the step and the operation
CREATE FUNCTION doubt_again(s step, o operation, p_why text) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  UPDATE operation x SET state = 'unknown', version = x.version + 1, proof = s.fence, fence = s.fence, updated_at = v_now, unknown_since = v_now WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  UPDATE step x SET doubts = x.doubts + 1, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
  PERFORM note_operation(o, 'OperationUnknown', s.fence, NULL, jsonb_build_object('why', p_why));
END $$;
