-- purpose: put steps that just became ready, or are due to be probed, where workers find them: a row in ready, an offer while the queue's window has room; their deadlines begin
-- transition: none (the caller made them ready)
-- fenced by: the caller
-- locks: none beyond the rows it inserts
CREATE FUNCTION make_ready(p_steps uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  IF p_steps IS NULL OR p_steps = '{}' THEN RETURN; END IF;
  WITH s AS MATERIALIZED (
    SELECT s.step_id, s.tenant_id, s.run_id, s.workflow, s.workflow_version, s.node, s.queue, s.priority, s.fence, CASE WHEN s.state = 'ready' THEN s.start_within_ms END AS start_within_ms, CASE WHEN s.state = 'ready' THEN s.expires_at END AS expires_at
    FROM step s WHERE s.step_id = ANY (p_steps) AND s.state IN ('ready', 'unknown')
  ), q AS MATERIALIZED (
    -- one in 64 looks at the window itself; the others only at whether a backlog waits
    SELECT x.queue, x.tenant_id, queue_has_room(x.queue, x.tenant_id, x.sample) AS room FROM (SELECT s.queue, s.tenant_id, bool_or(get_byte(uuid_send(s.step_id), 14) % 64 = 0) AS sample FROM s GROUP BY s.queue, s.tenant_id) x
  ), r AS (
    INSERT INTO ready (step_id, tenant_id, workflow, workflow_version, node, queue, priority, offers, since, offered_at)
    SELECT s.step_id, s.tenant_id, s.workflow, s.workflow_version, s.node, s.queue, s.priority, CASE WHEN q.room THEN 1 ELSE 0 END, v_now, CASE WHEN q.room THEN v_now END
    FROM s JOIN q ON q.queue = s.queue AND q.tenant_id = s.tenant_id
  ), t AS (
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id)
    SELECT s.tenant_id, 'start_deadline', v_now + s.start_within_ms * interval '1 ms', s.run_id, s.step_id FROM s WHERE s.start_within_ms IS NOT NULL AND NOT has_begun(s.step_id) AND NOT EXISTS (SELECT FROM timer x WHERE x.target_id = s.step_id AND x.kind = 'start_deadline')
    UNION ALL
    -- it may have gone straight to a worker before, without a timer
    SELECT s.tenant_id, 'step_deadline', s.expires_at, s.run_id, s.step_id FROM s WHERE s.expires_at IS NOT NULL AND NOT EXISTS (SELECT FROM timer x WHERE x.target_id = s.step_id AND x.kind = 'step_deadline')
  )
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  SELECT outbox_partition_of((array_agg(x.step_id))[1]), x.tenant_id, 'stanchion.workers.' || x.queue || '.commands.v1', (array_agg(x.step_id))[1]::text, 'ExecuteSteps', (array_agg(x.run_id))[1]::text,
         jsonb_build_object('workflow', x.workflow, 'version', x.workflow_version, 'node', x.node, 'steps', jsonb_agg(x.step_id))::text
  FROM (SELECT y.*, y.n / max(CASE WHEN y.n = 0 THEN steps_in_offer(y.workflow, y.workflow_version, y.node, y.of) END) OVER (PARTITION BY y.tenant_id, y.queue, y.workflow, y.workflow_version, y.node) AS chunk FROM (
    SELECT s.*, row_number() OVER w - 1 AS n, count(*) OVER (PARTITION BY s.tenant_id, s.queue, s.workflow, s.workflow_version, s.node) AS of
    FROM s JOIN q ON q.queue = s.queue AND q.tenant_id = s.tenant_id WHERE q.room WINDOW w AS (PARTITION BY s.tenant_id, s.queue, s.workflow, s.workflow_version, s.node ORDER BY s.priority DESC, s.step_id)) y) x
  GROUP BY x.tenant_id, x.queue, x.workflow, x.workflow_version, x.node, x.chunk;
END $$;
