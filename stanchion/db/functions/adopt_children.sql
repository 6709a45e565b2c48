-- purpose: expansion in a retried run, one step a branch: children that succeeded on the same item before are born with that result, the others are ready; returns the arrivals, for the caller to spread
-- transition: births: step succeeded (adopted) or ready
-- fenced by: the caller holds the fan-out's row
-- locks: only new rows
CREATE FUNCTION adopt_children(f step, p_first int, p_items jsonb, p_template jsonb, OUT o_arrivals arrival[], OUT o_done uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_feeds uuid[] := ARRAY(SELECT x::uuid FROM jsonb_array_elements_text(p_template->'feeds') x);
  v_old uuid := (SELECT b.o_fan FROM fan_before(f.step_id, p_first) b);
  v_ready uuid[];
BEGIN
  WITH i AS MATERIALIZED (
    SELECT uuidv7() AS step_id, p_first + x.n::int - 1 AS idx, x.v, (
      -- what answers for the child: itself, its last round, or the join of what it spawned; its item is what its first round was given
      SELECT o.step_id FROM step o WHERE o.fan_id = v_old AND o.idx = p_first + x.n - 1 AND o.tenant_id = f.tenant_id AND o.kind = 'step' AND coalesce(o.answers, o.node) = p_template->>'node' AND o.state = 'succeeded' AND o.replaced_by IS NULL
      AND x.v = (SELECT i.input FROM step i WHERE i.fan_id = v_old AND i.idx = o.idx AND i.tenant_id = f.tenant_id AND i.kind = 'step' AND i.node = p_template->>'node' ORDER BY i.round LIMIT 1) LIMIT 1) AS adopt
    FROM jsonb_array_elements(p_items) WITH ORDINALITY x(v, n)
  ), s AS (
    INSERT INTO step (tenant_id, step_id, run_id, fan_id, idx, state, node, queue, priority, max_attempts, feeds, workflow, workflow_version, input, timeout_ms, lease_ms, start_within_ms, total_ms, expires_at, holds, uncollected, created_at, updated_at)
    SELECT f.tenant_id, i.step_id, f.run_id, f.step_id, i.idx, CASE WHEN i.adopt IS NULL THEN 'ready' ELSE 'succeeded' END, p_template->>'node', p_template->>'queue', (p_template->>'priority')::int, (p_template->>'max_attempts')::int, v_feeds,
           f.workflow, f.workflow_version, i.v, (p_template->>'timeout_ms')::bigint, (p_template->>'lease_ms')::bigint,
           (p_template->>'start_within_ms')::bigint, (p_template->>'total_ms')::bigint, v_now + (p_template->>'total_ms')::bigint * interval '1 ms', coalesce((p_template->>'holds')::boolean, false), coalesce((p_template->>'uncollected')::boolean, false), v_now, v_now FROM i
  ), r AS (
    INSERT INTO result (tenant_id, step_id, fence, body, blob) SELECT f.tenant_id, i.step_id, NULL, o.body, o.blob FROM i JOIN result o ON o.step_id = i.adopt AND o.tenant_id = f.tenant_id
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, body)
    SELECT f.tenant_id, f.run_id, i.step_id, CASE WHEN i.adopt IS NULL THEN 'StepReady' ELSE 'StepAdopted' END, 0, v_now,
           jsonb_strip_nulls(jsonb_build_object('fan', f.step_id, 'idx', i.idx, 'adopted', i.adopt, 'state', CASE WHEN i.adopt IS NOT NULL THEN 'succeeded' END)) FROM i
  )
  SELECT array_agg(i.step_id) FILTER (WHERE i.adopt IS NULL), array_agg(i.step_id) FILTER (WHERE i.adopt IS NOT NULL),
    (SELECT array_agg(ROW(b, x.slot * limits.SLOT_RUN, x.n, 0, 0)::arrival) FROM (SELECT slot_of(j.idx) AS slot, count(*)::int AS n FROM i j WHERE j.adopt IS NOT NULL GROUP BY 1) x, unnest(v_feeds) b)
  INTO v_ready, o_done, o_arrivals FROM i;
  o_done := coalesce(o_done, '{}');
  o_arrivals := coalesce(o_arrivals, '{}');
  PERFORM make_ready(v_ready);
END $$;
