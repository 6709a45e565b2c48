-- purpose: the hot half of expand: one ready step an item, in one statement, with offers of several steps while the window has room
-- transition: birth: step ready
-- fenced by: the caller holds the fan-out's row
-- locks: only new rows
CREATE FUNCTION expand_children(f step, p_first int, p_items jsonb, p_template jsonb, p_room int, p_each int) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_feeds uuid[] := ARRAY(SELECT x::uuid FROM jsonb_array_elements_text(p_template->'feeds') x);
  v_queue text := p_template->>'queue';
  v_priority int := (p_template->>'priority')::int;
  v_node text := p_template->>'node';
BEGIN
  WITH s AS (
    INSERT INTO step (tenant_id, step_id, run_id, fan_id, idx, state, node, queue, priority, max_attempts, feeds, workflow, workflow_version, input, timeout_ms, lease_ms, start_within_ms, total_ms, expires_at, holds, uncollected, created_at, updated_at)
    SELECT f.tenant_id, uuidv7(), f.run_id, f.step_id, p_first + i.n - 1, 'ready', v_node, v_queue, v_priority, (p_template->>'max_attempts')::int, v_feeds, f.workflow, f.workflow_version, i.v, (p_template->>'timeout_ms')::bigint, (p_template->>'lease_ms')::bigint,
           (p_template->>'start_within_ms')::bigint, (p_template->>'total_ms')::bigint, v_now + (p_template->>'total_ms')::bigint * interval '1 ms', coalesce((p_template->>'holds')::boolean, false), coalesce((p_template->>'uncollected')::boolean, false), v_now, v_now
    FROM jsonb_array_elements(p_items) WITH ORDINALITY i(v, n)
    RETURNING step_id, idx
  ), y AS (
    INSERT INTO ready (step_id, tenant_id, workflow, workflow_version, node, queue, priority, offers, since, offered_at)
    SELECT s.step_id, f.tenant_id, f.workflow, f.workflow_version, v_node, v_queue, v_priority, CASE WHEN s.idx - p_first < p_room THEN 1 ELSE 0 END, v_now, CASE WHEN s.idx - p_first < p_room THEN v_now END FROM s
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, body) SELECT f.tenant_id, f.run_id, s.step_id, 'StepReady', 0, v_now, jsonb_build_object('fan', f.step_id, 'idx', s.idx) FROM s
  ), t AS (
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id)
    SELECT f.tenant_id, k.kind, v_now + (p_template->>k.span)::bigint * interval '1 ms', f.run_id, s.step_id FROM s, (VALUES ('start_deadline', 'start_within_ms'), ('step_deadline', 'total_ms')) k(kind, span) WHERE p_template->>k.span IS NOT NULL
  )
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  SELECT ((s.idx / p_each) % limits.OUTBOX_PARTITIONS)::smallint, f.tenant_id, 'stanchion.workers.' || v_queue || '.commands.v1', (array_agg(s.step_id))[1]::text, 'ExecuteSteps', f.run_id::text,
         jsonb_build_object('workflow', f.workflow, 'version', f.workflow_version, 'node', v_node, 'steps', jsonb_agg(s.step_id))::text
  FROM s WHERE s.idx - p_first < p_room GROUP BY s.idx / p_each ORDER BY s.idx / p_each;
END $$;
