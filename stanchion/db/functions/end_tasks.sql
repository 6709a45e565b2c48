-- purpose: end tasks whose run ended, tell the world and the webhooks, and drop what was due for them
-- transition: task accepted|running -> completed|failed, cancelling -> cancelled, awaiting_approval -> rejected
-- fenced by: the caller ended the run under its row lock
-- locks: tasks by id
CREATE FUNCTION end_tasks(p_tasks uuid[], p_state text, p_reason jsonb, p_sequences bigint[] DEFAULT NULL) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_ended uuid[];
BEGIN
  PERFORM FROM task t WHERE t.task_id = ANY (p_tasks) ORDER BY t.task_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE task t SET state = p_state, version = t.version + 1, updated_at = v_now, ended_at = v_now, reason = p_reason
    WHERE t.task_id = ANY (p_tasks) AND t.ended_at IS NULL
    RETURNING t.tenant_id, t.task_id, t.run_id, t.version, t.workflow, t.deadline_at
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at, body) SELECT u.tenant_id, u.run_id, 'Task' || initcap(p_state), u.version, v_now, p_reason FROM u
  ), d AS (
    DELETE FROM timer x WHERE x.target_id = ANY (ARRAY(SELECT u.task_id FROM u WHERE u.deadline_at IS NOT NULL))
  ), o AS (
    INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, sequence, body)
    SELECT outbox_partition_of(u.run_id), u.tenant_id, 'stanchion.events.v1', u.run_id::text, 'Task' || initcap(p_state), u.run_id::text,
           coalesce(p_sequences[array_position(p_tasks, u.task_id)], next_sequence(u.run_id)), jsonb_build_object('task_id', u.task_id, 'run_id', u.run_id, 'workflow', u.workflow, 'state', p_state, 'reason', p_reason)::text
    FROM u
  )
  SELECT array_agg(u.task_id) INTO v_ended FROM u;
  -- who subscribed learns that it ended and how, not what came of it: of the reason the code alone
  PERFORM notify_webhooks(t.tenant_id, 'task.' || p_state, t.task_id::text, jsonb_strip_nulls(jsonb_build_object('task_id', t.task_id, 'run_id', t.run_id, 'workflow', t.workflow, 'state', p_state, 'code', p_reason->>'code')))
  FROM task t WHERE t.task_id = ANY (v_ended);
END $$;
