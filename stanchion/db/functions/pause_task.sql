-- purpose: pause or resume a task's run: while it is paused nothing of it is leased, what runs goes on
-- transition: none (paused_at is a flag)
-- fenced by: nothing
-- locks: for a resume the advisory lock on putting aside and ready rows (skipping locked ones); then the run; the audit chain last
CREATE FUNCTION pause_task(p_tenant uuid, p_task uuid, p_paused boolean, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  r run;
BEGIN
  IF NOT EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  -- what could not be leased while it was paused is offered anew at once; before the run is locked, since a lease takes both the other way round
  IF NOT p_paused THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('put aside', 0));
    UPDATE ready y SET offered_at = NULL WHERE y.step_id = ANY (ARRAY(SELECT y.step_id FROM ready y WHERE y.step_id = ANY (ARRAY(
      SELECT s.step_id FROM step s WHERE s.run_id = (SELECT t.run_id FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) AND s.state = 'ready')) FOR UPDATE SKIP LOCKED));
  END IF;
  UPDATE run x SET paused_at = CASE WHEN p_paused THEN coalesce(x.paused_at, v_now) END, updated_at = v_now
  WHERE x.run_id = (SELECT t.run_id FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) AND x.state IN ('created', 'running') AND (x.paused_at IS NOT NULL) <> p_paused RETURNING * INTO r;
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant AND t.state NOT IN ('accepted', 'running', 'awaiting_approval')) THEN
      RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-TASK-05 the task has ended, or is about to';
    END IF;
    RETURN false;
  END IF;
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor) VALUES (r.tenant_id, r.run_id, CASE WHEN p_paused THEN 'RunPaused' ELSE 'RunResumed' END, r.version, v_now, p_actor);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, CASE WHEN p_paused THEN 'task.pause' ELSE 'task.resume' END, p_task::text, '{}');
  RETURN true;
END $$;
