-- purpose: take inputs and results away from tasks that ended so long ago; states, attempts and events stay
-- transition: none
-- fenced by: the task's state, looked at under its lock: a task that is retried meanwhile keeps everything
-- locks: tasks (skipping locked ones), then what is theirs
CREATE FUNCTION remove_payloads(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_tasks uuid[] := ARRAY(SELECT t.task_id FROM task t WHERE t.ended_at < v_now - p_older AND t.payload_removed_at IS NULL ORDER BY t.ended_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
  v_runs uuid[] := ARRAY(SELECT r.run_id FROM run r WHERE r.task_id = ANY (v_tasks));
  v_steps uuid[] := ARRAY(SELECT s.step_id FROM step s WHERE s.run_id = ANY (v_runs));
  v_blobs bytea[];
BEGIN
  IF v_tasks = '{}' THEN RETURN 0; END IF;
  v_blobs := ARRAY(
    SELECT x.blob FROM result x WHERE x.step_id = ANY (v_steps) AND x.blob IS NOT NULL
    UNION SELECT x.input_blob FROM step x WHERE x.step_id = ANY (v_steps) AND x.input_blob IS NOT NULL
    UNION SELECT x.payload_blob FROM operation x WHERE x.task_id = ANY (v_tasks) AND x.payload_blob IS NOT NULL
    UNION SELECT x.input_blob FROM task x WHERE x.task_id = ANY (v_tasks) AND x.input_blob IS NOT NULL);
  DELETE FROM result x WHERE x.step_id = ANY (v_steps);
  UPDATE step x SET input = NULL, input_blob = NULL WHERE x.step_id = ANY (v_steps) AND (x.input IS NOT NULL OR x.input_blob IS NOT NULL);
  UPDATE operation x SET payload = NULL, payload_blob = NULL, receipt = NULL WHERE x.task_id = ANY (v_tasks);
  UPDATE approval x SET payload = NULL, summary = NULL WHERE x.task_id = ANY (v_tasks) AND (x.payload IS NOT NULL OR x.summary IS NOT NULL);
  UPDATE task x SET input = NULL, input_blob = NULL, payload_removed_at = v_now WHERE x.task_id = ANY (v_tasks);
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor) SELECT r.tenant_id, r.run_id, 'PayloadRemoved', r.version, v_now, 'retention' FROM run r WHERE r.run_id = ANY (v_runs);
  PERFORM remove_blobs(v_blobs);
  -- artifacts follow in parts, a task may have any number of them; what is pinned stays, and goes once it is pinned no longer
  UPDATE artifact_version v SET outlives = true WHERE v.task_id = ANY (v_tasks) AND v.state = 'available';
  RETURN cardinality(v_tasks);
END $$;
