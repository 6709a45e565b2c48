-- purpose: a new run of a task that failed, was cancelled or rejected; it names the old run and takes over the results the plan says
-- transition: task failed|cancelled|rejected -> accepted; births: run, steps (those taken over: settled), barriers
-- fenced by: the task's state
-- locks: the task, its budget, then only new rows: nobody else knows the run yet; the audit chain last
CREATE FUNCTION retry_task(p_tenant uuid, p_task uuid, p_run uuid, p_open int, p_steps jsonb, p_barriers jsonb, p_kept jsonb, p_actor text, p_budget jsonb DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  t task;
  v_over text;
  v_budget jsonb;
  a record;
BEGIN
  SELECT * INTO t FROM task x WHERE x.task_id = p_task AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  IF t.state NOT IN ('failed', 'cancelled', 'rejected') THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = CASE WHEN t.ended_at IS NULL THEN format('E-TASK-07 a task that is %s is not retried', t.state) ELSE 'E-TASK-09 a completed task is not retried' END; END IF;
  IF t.payload_removed_at IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-TASK-08 the input and the results of this task were removed', DETAIL = 'They are kept for a limited time after the end of a task.', HINT = 'submit it anew';
  END IF;
  v_now := clock();
  INSERT INTO run (tenant_id, run_id, task_id, number, workflow, workflow_version, state, open, retry_of, created_at, updated_at) VALUES (p_tenant, p_run, p_task, t.runs + 1, t.workflow, t.workflow_version, 'created', p_open, t.run_id, v_now, v_now);
  UPDATE task x SET state = 'accepted', version = x.version + 1, run_id = p_run, runs = x.runs + 1, ended_at = NULL, reason = NULL, updated_at = v_now, deadline_at = NULL WHERE x.task_id = p_task;
  IF p_budget IS NOT NULL THEN PERFORM set_budget(p_tenant, p_task, p_budget); END IF;
  -- all runs of a task spend of one budget: the next one would only find it used up
  SELECT budget_text(b.unit, b.allowed, b.spent) INTO v_over FROM budget b WHERE b.task_id = p_task AND b.tenant_id = p_tenant AND b.spent > b.allowed ORDER BY b.unit LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-BUD-02 the task has spent more than its budget', DETAIL = v_over, HINT = 'retry it with a larger one';
  END IF;
  SELECT jsonb_object_agg(b.unit, b.allowed) INTO v_budget FROM budget b WHERE b.task_id = p_task AND b.tenant_id = p_tenant AND b.allowed IS NOT NULL;
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body)
  VALUES (p_tenant, p_run, 'TaskRetried', t.version + 1, v_now, p_actor, jsonb_build_object('task', p_task, 'run', t.runs + 1, 'retry_of', t.run_id, 'workflow', t.workflow, 'workflow_version', t.workflow_version, 'kept', p_kept) || CASE WHEN v_budget IS NULL THEN '{}' ELSE jsonb_build_object('budget', v_budget) END);
  PERFORM insert_plan(p_steps, p_barriers);
  SELECT * INTO a FROM adopt_steps(p_steps);
  PERFORM spread(a.o_arrivals, a.o_done, a.o_after);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'task.retry', p_task::text, jsonb_strip_nulls(jsonb_build_object('run', p_run, 'budget', p_budget)));
  RETURN p_run;
END $$;
