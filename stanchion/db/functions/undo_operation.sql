-- purpose: a step that undoes an effect: leased and tried again as any other, also while its run winds down or after it ended
-- transition: birth: step ready, of kind undo
-- fenced by: the caller holds the operation
-- locks: only new rows
CREATE FUNCTION undo_operation(o operation, p_actor text, p_why text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_step uuid := uuidv7();
  s step := (SELECT x FROM step x WHERE x.step_id = o.step_id AND x.tenant_id = o.tenant_id);
BEGIN
  INSERT INTO step (tenant_id, step_id, run_id, kind, state, node, queue, workflow, workflow_version, priority, input, lease_ms, created_at, updated_at)
  VALUES (o.tenant_id, v_step, o.run_id, 'undo', 'ready', s.node, s.queue, s.workflow, s.workflow_version, s.priority, jsonb_build_object('operation', o.operation_id), s.lease_ms, v_now, v_now);
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body)
  VALUES (o.tenant_id, o.run_id, v_step, 'StepReady', 0, v_now, p_actor, jsonb_strip_nulls(jsonb_build_object('node', s.node, 'kind', 'undo', 'undoes', o.operation_id, 'why', p_why)));
  PERFORM make_ready(ARRAY[v_step]);
  RETURN v_step;
END $$;
