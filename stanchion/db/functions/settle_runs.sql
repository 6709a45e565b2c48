-- purpose: count down what is open of each run and end the runs, and their tasks, that have nothing open left
-- transition: run created|running -> succeeded; task accepted|running -> completed
-- fenced by: the caller
-- locks: runs by id, then tasks by id
CREATE FUNCTION settle_runs(p_runs uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_ids uuid[];
  v_n int[];
  v_tasks uuid[];
BEGIN
  IF p_runs IS NULL OR p_runs = '{}' THEN RETURN; END IF;
  SELECT array_agg(x.id), array_agg(x.n) INTO v_ids, v_n FROM (SELECT u.id, count(*)::int AS n FROM unnest(p_runs) u(id) GROUP BY u.id) x;
  PERFORM FROM run r WHERE r.run_id = ANY (v_ids) ORDER BY r.run_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE run r SET open = r.open - v_n[array_position(v_ids, r.run_id)], updated_at = v_now,
      state = CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN 'succeeded' ELSE r.state END,
      version = r.version + CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN 1 ELSE 0 END,
      ended_at = CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN v_now END
    WHERE r.run_id = ANY (v_ids) AND r.state IN ('created', 'running')
    RETURNING r.tenant_id, r.run_id, r.task_id, r.version, r.state
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT u.tenant_id, u.run_id, 'RunSucceeded', u.version, v_now FROM u WHERE u.state = 'succeeded'
  )
  SELECT array_agg(u.task_id) INTO v_tasks FROM u WHERE u.state = 'succeeded';
  IF v_tasks IS NOT NULL THEN PERFORM end_tasks(v_tasks, 'completed', NULL); END IF;
END $$;
