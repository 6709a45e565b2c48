-- purpose: remove tasks that ended so long ago, with their runs, steps, attempts and joins; their payloads went before, their events go with their month
-- transition: none
-- fenced by: the task's state, looked at under its lock, its payload being gone, and no version of it being left
-- locks: tasks (skipping locked ones), then what is theirs
CREATE FUNCTION remove_history(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_tasks uuid[] := ARRAY(SELECT t.task_id FROM task t WHERE t.ended_at < clock() - p_older AND t.payload_removed_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM artifact_version v WHERE v.task_id = t.task_id AND v.state <> 'deleted') ORDER BY t.ended_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  v_runs uuid[] := ARRAY(SELECT r.run_id FROM run r WHERE r.task_id = ANY (v_tasks));
  v_steps uuid[] := ARRAY(SELECT s.step_id FROM step s WHERE s.run_id = ANY (v_runs));
  v_barriers uuid[] := ARRAY(SELECT b.barrier_id FROM barrier b WHERE b.run_id = ANY (v_runs));
  v_operations uuid[];
  v_approvals uuid[];
BEGIN
  IF v_tasks = '{}' THEN RETURN 0; END IF;
  DELETE FROM timer x WHERE x.target_id = ANY (v_steps || v_barriers || v_tasks);
  DELETE FROM attempt x WHERE x.step_id = ANY (v_steps);
  DELETE FROM barrier_slot x WHERE x.barrier_id = ANY (v_barriers);
  DELETE FROM artifact_version x WHERE x.task_id = ANY (v_tasks);
  DELETE FROM artifact x WHERE x.task_id = ANY (v_tasks);
  DELETE FROM step x WHERE x.step_id = ANY (v_steps);
  DELETE FROM barrier x WHERE x.barrier_id = ANY (v_barriers);
  -- what only ever grows goes after what it belongs to: until then its guard refuses
  DELETE FROM barrier_release x WHERE x.barrier_id = ANY (v_barriers);
  DELETE FROM run x WHERE x.run_id = ANY (v_runs);
  WITH o AS (DELETE FROM operation x WHERE x.task_id = ANY (v_tasks) RETURNING x.operation_id) SELECT array_agg(o.operation_id) INTO v_operations FROM o;
  DELETE FROM operation_probe x WHERE x.operation_id = ANY (v_operations);
  WITH a AS (DELETE FROM approval x WHERE x.task_id = ANY (v_tasks) RETURNING x.approval_id) SELECT array_agg(a.approval_id) INTO v_approvals FROM a;
  DELETE FROM approval_vote x WHERE x.approval_id = ANY (v_approvals);
  DELETE FROM refused_write x WHERE x.run_id = ANY (v_runs);
  DELETE FROM error_member x WHERE x.run_id = ANY (v_runs);
  DELETE FROM budget x WHERE x.task_id = ANY (v_tasks);
  DELETE FROM task x WHERE x.task_id = ANY (v_tasks);
  DELETE FROM spending x WHERE x.task_id = ANY (v_tasks);
  RETURN cardinality(v_tasks);
END $$;
