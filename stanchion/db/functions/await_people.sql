-- purpose: a task awaits approval while anything of its live run is asked, and runs on when nothing is
-- transition: task running -> awaiting_approval, awaiting_approval -> running
-- fenced by: the caller holds the runs: whoever asks or decides takes them before it ends
-- locks: tasks by id
CREATE FUNCTION await_people(p_runs uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  x record;
BEGIN
  FOR x IN
    SELECT r.tenant_id, r.run_id, r.task_id, EXISTS (SELECT FROM approval a WHERE a.run_id = r.run_id AND a.state = 'requested') AS asked
    FROM run r WHERE r.run_id = ANY (p_runs) AND r.state IN ('created', 'running') ORDER BY r.task_id
  LOOP
    WITH u AS (
      UPDATE task t SET state = CASE WHEN x.asked THEN 'awaiting_approval' ELSE 'running' END, version = t.version + 1, updated_at = v_now
      WHERE t.task_id = x.task_id AND t.tenant_id = x.tenant_id AND t.state = CASE WHEN x.asked THEN 'running' ELSE 'awaiting_approval' END RETURNING t.version
    )
    INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT x.tenant_id, x.run_id, CASE WHEN x.asked THEN 'TaskAwaitingApproval' ELSE 'TaskAnswered' END, u.version, v_now FROM u;
  END LOOP;
END $$;
