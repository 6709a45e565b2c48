-- purpose: a step ends without its result that had sent something and was to send it again: nobody knows what became of it, and the ledger says so
-- transition: operation prepared -> unknown
-- fenced by: the operation alone: what may have been done is never taken for not sent
-- locks: the caller holds the step; its operations
CREATE FUNCTION leave_in_doubt(s step) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  o operation;
BEGIN
  FOR o IN SELECT x.* FROM operation x WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id AND may_still_land(x) ORDER BY x.operation_id FOR NO KEY UPDATE LOOP
    UPDATE operation x SET state = 'unknown', version = x.version + 1, proof = -5, updated_at = v_now, unknown_since = v_now WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
    PERFORM note_operation(o, 'OperationUnknown', NULL, 'engine', jsonb_build_object('why', 'its step has ended, and what was sent may still land'));
  END LOOP;
END $$;
