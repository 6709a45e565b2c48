-- purpose: end a run that was winding down, and its task with it
-- transition: run cancelling -> failed|cancelled; its waiting barriers -> cancelled; task running -> failed, cancelling -> cancelled, awaiting_approval -> rejected
-- fenced by: the caller saw under the run's lock that nothing of it is open
-- locks: the run, then its barriers, then the task
CREATE FUNCTION end_run(p_run uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  r run;
BEGIN
  PERFORM cancel_barriers(ARRAY(SELECT b.barrier_id FROM barrier b WHERE b.run_id = p_run AND b.state = 'waiting'));
  -- nothing arrives any more: a join that was decided early must not be swept for ever
  UPDATE barrier x SET closed = true, sweep_at = NULL WHERE x.run_id = p_run AND x.kind = 'gather' AND (NOT x.closed OR x.sweep_at IS NOT NULL);
  UPDATE run x SET state = CASE x.outcome WHEN 'rejected' THEN 'cancelled' ELSE x.outcome END, reason = x.reason || coalesce(compensated_of(p_run), '{}'), version = x.version + 1, updated_at = v_now, ended_at = v_now WHERE x.run_id = p_run AND x.state = 'cancelling' RETURNING * INTO r;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) VALUES (r.tenant_id, r.run_id, 'Run' || initcap(r.state), r.version, v_now, r.reason);
  PERFORM end_tasks(ARRAY[r.task_id], r.outcome, r.reason);
END $$;
