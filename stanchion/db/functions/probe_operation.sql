-- purpose: a person wants the outside system to be asked now, not at the next due time
-- transition: none
-- fenced by: nothing; a probe is a lease as any other
-- locks: the step; the audit chain last
CREATE FUNCTION probe_operation(p_tenant uuid, p_operation uuid, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  o operation;
BEGIN
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = p_tenant;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such operation in this tenant'; END IF;
  SELECT x.* INTO s FROM step x WHERE x.step_id = o.step_id AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF o.state = 'unknown' AND s.state = 'unknown' THEN
    DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind = 'probe';
    IF NOT EXISTS (SELECT FROM ready y WHERE y.step_id = s.step_id) THEN PERFORM make_ready(ARRAY[s.step_id]); END IF;
    PERFORM note_act(p_tenant, p_actor, 'operation.reconcile', p_operation::text, '{}');
  END IF;
  RETURN o.state;
END $$;
