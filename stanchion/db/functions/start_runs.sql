-- purpose: the first lease of a run starts it and its task
-- transition: run created -> running; task accepted -> running
-- fenced by: the caller holds a lease's step row
-- locks: runs by id, then tasks by id
CREATE FUNCTION start_runs(p_runs uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_tasks uuid[];
BEGIN
  PERFORM FROM run r WHERE r.run_id = ANY (p_runs) ORDER BY r.run_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE run r SET state = 'running', version = r.version + 1, updated_at = v_now WHERE r.run_id = ANY (p_runs) AND r.state = 'created'
    RETURNING r.tenant_id, r.run_id, r.task_id, r.version
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT u.tenant_id, u.run_id, 'RunStarted', u.version, v_now FROM u
  )
  SELECT array_agg(u.task_id) INTO v_tasks FROM u;
  IF v_tasks IS NULL THEN RETURN; END IF;
  PERFORM FROM task t WHERE t.task_id = ANY (v_tasks) ORDER BY t.task_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE task t SET state = 'running', version = t.version + 1, updated_at = v_now WHERE t.task_id = ANY (v_tasks) AND t.state = 'accepted'
    RETURNING t.tenant_id, t.run_id, t.version
  )
  INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT u.tenant_id, u.run_id, 'TaskStarted', u.version, v_now FROM u;
END $$;
