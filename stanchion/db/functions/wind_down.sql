-- purpose: begin the end of a run: what has not started is going to be cancelled by the sweep, what runs is told at its heartbeat
-- transition: run created|running -> cancelling; with outcome cancelled also task accepted|running|awaiting_approval -> cancelling, with outcome failed awaiting_approval -> running
-- fenced by: the caller
-- locks: the run, then its task
CREATE FUNCTION wind_down(p_run uuid, p_outcome text, p_reason jsonb, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  r run;
BEGIN
  UPDATE run SET state = 'cancelling', outcome = p_outcome, reason = p_reason, version = version + 1, updated_at = v_now
  WHERE run_id = p_run AND state IN ('created', 'running') RETURNING * INTO r;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body)
  VALUES (r.tenant_id, r.run_id, 'RunCancelling', r.version, v_now, p_actor, jsonb_build_object('outcome', p_outcome, 'reason', p_reason));
  IF p_outcome = 'cancelled' THEN
    WITH u AS (
      UPDATE task t SET state = 'cancelling', version = t.version + 1, updated_at = v_now, reason = p_reason
      WHERE t.task_id = r.task_id AND t.state IN ('accepted', 'running', 'awaiting_approval') RETURNING t.tenant_id, t.version
    ) INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body) SELECT u.tenant_id, r.run_id, 'TaskCancelling', u.version, v_now, p_actor, p_reason FROM u;
  END IF;
  IF p_outcome = 'failed' THEN
    WITH u AS (
      UPDATE task t SET state = 'running', version = t.version + 1, updated_at = v_now WHERE t.task_id = r.task_id AND t.state = 'awaiting_approval' RETURNING t.tenant_id, t.version
    ) INSERT INTO event (tenant_id, run_id, kind, version, at, actor) SELECT u.tenant_id, r.run_id, 'TaskAnswered', u.version, v_now, p_actor FROM u;
  END IF;
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  VALUES (outbox_partition_of(r.run_id), r.tenant_id, 'stanchion.orchestrator.commands.v1', r.run_id::text, 'PlanRun', r.run_id::text, jsonb_build_object('run_id', r.run_id)::text);
  RETURN true;
END $$;
