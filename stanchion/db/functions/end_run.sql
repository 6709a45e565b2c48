-- purpose: end a run that was winding down, and its task with it
-- transition: run cancelling -> failed|cancelled; its waiting barriers -> cancelled; task running -> failed, cancelling -> cancelled
-- fenced by: the caller saw that nothing of it is open
-- locks: the run, then the task
CREATE FUNCTION end_run(p_run uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  r run;
BEGIN
  WITH b AS (
    UPDATE barrier x SET state = 'cancelled', version = x.version + 1 WHERE x.run_id = p_run AND x.state = 'waiting' RETURNING x.tenant_id, x.run_id, x.barrier_id, x.version
  ), d AS (
    DELETE FROM timer t WHERE t.target_id IN (SELECT b.barrier_id FROM b)
  )
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) SELECT b.tenant_id, b.run_id, 'BarrierCancelled', b.version, v_now, jsonb_build_object('barrier', b.barrier_id) FROM b;
  UPDATE run x SET state = x.outcome, version = x.version + 1, updated_at = v_now, ended_at = v_now WHERE x.run_id = p_run AND x.state = 'cancelling' RETURNING * INTO r;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) VALUES (r.tenant_id, r.run_id, 'Run' || initcap(r.state), r.version, v_now, r.reason);
  PERFORM end_tasks(ARRAY[r.task_id], r.outcome, r.reason);
END $$;
