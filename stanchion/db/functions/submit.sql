-- purpose: accept a batch of tasks with their first plan; the same key and payload give the same task, the same message is applied once
-- transition: births: task accepted, run created, steps, barriers
-- fenced by: unique keys of task (tenant, idempotency_key) and inbox (message, consumer, tenant)
-- locks: only new rows, tasks in key order; the audit chain last
CREATE FUNCTION submit(p_tasks jsonb, p_steps jsonb, p_barriers jsonb) RETURNS TABLE (ord int, outcome text, task_id uuid, run_id uuid, state text)
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock();
  v_new uuid[];
  v_fresh uuid[];
BEGIN
  -- a message is applied once, by whichever replica: whoever else has it waits here for the first one's end, and then brings nothing new
  WITH i AS (
    INSERT INTO inbox (tenant_id, message_id, consumer, subject, at)
    SELECT x.tenant_id, x.message_id, 'task-service', x.task_id, v_now FROM jsonb_to_recordset(p_tasks) AS x(ord int, tenant_id uuid, message_id text, task_id uuid) WHERE x.message_id IS NOT NULL ORDER BY x.message_id, x.ord
    ON CONFLICT DO NOTHING RETURNING subject
  ) SELECT array_agg(i.subject) INTO v_fresh FROM i;
  WITH p AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(p_tasks) AS x(ord int, tenant_id uuid, task_id uuid, run_id uuid, workflow text, workflow_version int, idempotency_key text, payload_digest text, input jsonb, input_blob text, priority int, tags text[],
      goal text, constraints jsonb, budget jsonb, deadline_at timestamptz, submitted_via text, submitted_by text, open int, message_id text, correlation_id text)
  ), t AS (
    INSERT INTO task (tenant_id, task_id, run_id, workflow, workflow_version, state, idempotency_key, payload_digest, input, input_blob, priority, tags, goal, constraints, deadline_at, submitted_via, submitted_by, created_at, updated_at)
    SELECT p.tenant_id, p.task_id, p.run_id, p.workflow, p.workflow_version, 'accepted', p.idempotency_key, decode(p.payload_digest, 'hex'), p.input, decode(p.input_blob, 'hex'), coalesce(p.priority, 0), coalesce(p.tags, '{}'),
           p.goal, p.constraints, p.deadline_at, p.submitted_via, p.submitted_by, v_now, v_now
    FROM p WHERE p.message_id IS NULL OR p.task_id = ANY (v_fresh) ORDER BY p.tenant_id, p.idempotency_key, p.ord
    ON CONFLICT (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING tenant_id, task_id, run_id, workflow, workflow_version, deadline_at
  ), r AS (
    INSERT INTO run (tenant_id, run_id, task_id, number, workflow, workflow_version, state, open, seq, created_at, updated_at)
    SELECT t.tenant_id, t.run_id, t.task_id, 1, t.workflow, t.workflow_version, 'created', (SELECT p.open FROM p WHERE p.task_id = t.task_id), 1, v_now, v_now FROM t
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at, body)
    SELECT p.tenant_id, p.run_id, 'TaskAccepted', 0, v_now, jsonb_build_object('task', p.task_id, 'run', 1, 'workflow', p.workflow, 'workflow_version', p.workflow_version, 'payload', p.payload_digest, 'priority', coalesce(p.priority, 0),
      'via', p.submitted_via, 'by', p.submitted_by) || CASE WHEN p.budget IS NULL THEN '{}' ELSE jsonb_build_object('budget', p.budget) END FROM p JOIN t ON t.task_id = p.task_id
  ), d AS (
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id) SELECT t.tenant_id, 'task_deadline', t.deadline_at, t.run_id, t.task_id FROM t WHERE t.deadline_at IS NOT NULL
  ), o AS (
    INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, sequence, body)
    SELECT outbox_partition_of(t.run_id), t.tenant_id, 'stanchion.events.v1', t.run_id::text, 'TaskAccepted', t.run_id::text, 1,
           jsonb_build_object('task_id', t.task_id, 'run_id', t.run_id, 'workflow', t.workflow, 'version', t.workflow_version)::text FROM t
  )
  SELECT array_agg(t.task_id) INTO v_new FROM t;
  -- a new message with a known key is about the task that has the key
  UPDATE inbox i SET subject = x.known FROM (SELECT y.tenant_id, y.message_id, (SELECT t.task_id FROM task t WHERE t.tenant_id = y.tenant_id AND t.idempotency_key = y.idempotency_key) AS known
    FROM jsonb_to_recordset(p_tasks) AS y(tenant_id uuid, message_id text, task_id uuid, idempotency_key text) WHERE y.task_id = ANY (v_fresh) AND y.task_id <> ALL (coalesce(v_new, '{}'))) x
  WHERE i.message_id = x.message_id AND i.consumer = 'task-service' AND i.tenant_id = x.tenant_id AND x.known IS NOT NULL;
  IF v_new IS NOT NULL THEN
    PERFORM insert_plan(
      CASE WHEN cardinality(v_new) = jsonb_array_length(p_tasks) THEN p_steps ELSE
        (SELECT jsonb_agg(s) FROM jsonb_array_elements(p_steps) s WHERE (s->>'task_id')::uuid = ANY (v_new)) END,
      CASE WHEN p_barriers IS NULL OR cardinality(v_new) = jsonb_array_length(p_tasks) THEN p_barriers ELSE
        (SELECT jsonb_agg(b) FROM jsonb_array_elements(p_barriers) b WHERE (b->>'task_id')::uuid = ANY (v_new)) END);
    IF p_tasks @? '$[*].budget' THEN
      PERFORM set_budget(x.tenant_id, x.task_id, x.budget) FROM jsonb_to_recordset(p_tasks) AS x(tenant_id uuid, task_id uuid, budget jsonb) WHERE x.budget IS NOT NULL AND x.task_id = ANY (v_new);
    END IF;
    PERFORM note_submissions(v_new);
  END IF;
  RETURN QUERY
    SELECT x.ord, CASE WHEN t.task_id = x.task_id AND x.task_id = ANY (v_new) THEN 'created' WHEN t.payload_digest = decode(x.payload_digest, 'hex') THEN 'duplicate' ELSE 'conflict' END, t.task_id, t.run_id, t.state
    FROM jsonb_to_recordset(p_tasks) AS x(ord int, tenant_id uuid, task_id uuid, idempotency_key text, payload_digest text, message_id text),
    LATERAL (SELECT t.* FROM task t WHERE t.tenant_id = x.tenant_id AND t.task_id = coalesce(
      (SELECT k.task_id FROM task k WHERE k.tenant_id = x.tenant_id AND k.idempotency_key = x.idempotency_key),
      (SELECT i.subject FROM inbox i WHERE i.message_id = x.message_id AND i.consumer = 'task-service' AND i.tenant_id = x.tenant_id), x.task_id)) t
    ORDER BY x.ord;
END $$;
