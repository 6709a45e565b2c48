-- purpose: nobody knows any more what became of what a step has sent: its holder is gone, or gave up waiting
-- transition: operation dispatched -> unknown
-- fenced by: the proof that the caller presents
-- locks: the caller holds the step; its operations by id
CREATE FUNCTION doubt_operations(p_step uuid, p_proof bigint, p_actor text) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  o operation;
BEGIN
  FOR o IN SELECT x.* FROM operation x WHERE x.step_id = p_step AND x.state = 'dispatched' ORDER BY x.operation_id FOR NO KEY UPDATE LOOP
    UPDATE operation x SET state = 'unknown', version = x.version + 1, proof = p_proof, updated_at = clock(), unknown_since = clock() WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
    PERFORM note_operation(o, 'OperationUnknown', NULL, p_actor, NULL);
  END LOOP;
END $$;
