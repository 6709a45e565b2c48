-- purpose: a step does not come to send again what it had sent and what was not found: nobody knows what became of it, and the ledger says so; tells of how many
-- transition: operation prepared -> unknown
-- fenced by: the operation alone: what may have been done is never taken for not sent
-- locks: the caller holds the step; its operations
CREATE FUNCTION leave_in_doubt(s step, p_actor text, p_why jsonb) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int := 0;
  o operation;
BEGIN
  FOR o IN SELECT x.* FROM operation x WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id AND may_still_land(x) ORDER BY x.operation_id FOR NO KEY UPDATE LOOP
    v_n := v_n + 1;
    UPDATE operation x SET state = 'unknown', version = x.version + 1, proof = -5, updated_at = v_now, unknown_since = v_now WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
    PERFORM note_operation(o, 'OperationUnknown', NULL, p_actor, p_why);
  END LOOP;
  RETURN v_n;
END $$;
