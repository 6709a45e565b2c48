-- purpose: ask for a task to be cancelled; ready steps end with the next sweep, running ones learn it at their next heartbeat
-- transition: task accepted|running|awaiting_approval -> cancelling; run created|running -> cancelling
-- fenced by: nothing
-- locks: the run, then the task; the audit chain last
CREATE FUNCTION cancel_task(p_tenant uuid, p_task uuid, p_reason text, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_run uuid := (SELECT t.run_id FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant);
  v_state text;
BEGIN
  IF v_run IS NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  IF wind_down(v_run, 'cancelled', jsonb_build_object('code', 'E-TASK-21', 'what', 'it was cancelled', 'why', p_reason, 'by', p_actor), p_actor) THEN
    INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'task.cancel', p_task::text, jsonb_build_object('reason', p_reason));
  END IF;
  SELECT t.state INTO v_state FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant;
  RETURN v_state;
END $$;
