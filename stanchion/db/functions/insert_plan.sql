-- purpose: insert steps and barriers that the planner worked out, offer those that are ready
-- transition: births: step pending|ready (succeeded|skipped when it is adopted from an earlier run), barrier waiting
-- fenced by: the caller
-- locks: only new rows
CREATE FUNCTION insert_plan(p_steps jsonb, p_barriers jsonb, p_priority int DEFAULT 0) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_ready uuid[];
  v_empty arrival[];
BEGIN
  WITH p AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(p_steps) AS x(tenant_id uuid, step_id uuid, run_id uuid, fan_id uuid, idx int, round int, kind text, state text, node text, queue text, priority int, max_attempts int,
      counts boolean, waits int, feeds uuid[], sources uuid[], workflow text, workflow_version int, answers text, input jsonb, input_blob text, timeout_ms bigint, lease_ms bigint, start_within_ms bigint, total_ms bigint, chooses uuid[], holds boolean, uncollected boolean, adopt uuid)
  ), s AS (
    INSERT INTO step (tenant_id, step_id, run_id, fan_id, idx, round, kind, state, node, queue, priority, max_attempts, counts, waits, feeds, sources, workflow, workflow_version, answers, input, input_blob, timeout_ms, lease_ms, start_within_ms, total_ms, expires_at, chooses, holds, uncollected, created_at, updated_at)
    SELECT p.tenant_id, p.step_id, p.run_id, p.fan_id, coalesce(p.idx, 0), coalesce(p.round, 0), coalesce(p.kind, 'step'), p.state, p.node, p.queue, greatest(-100, least(100, coalesce(p.priority, 0) + p_priority)), coalesce(p.max_attempts, 4), coalesce(p.counts, false),
           coalesce(p.waits, 0), p.feeds, p.sources, p.workflow, p.workflow_version, p.answers, p.input, decode(p.input_blob, 'hex'), p.timeout_ms, p.lease_ms,
           p.start_within_ms, p.total_ms, CASE p.state WHEN 'ready' THEN v_now + p.total_ms * interval '1 ms' END, p.chooses, coalesce(p.holds, false), coalesce(p.uncollected, false), v_now, v_now FROM p
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, body)
    SELECT p.tenant_id, p.run_id, p.step_id, CASE p.state WHEN 'ready' THEN 'StepReady' WHEN 'pending' THEN 'StepCreated' ELSE 'StepAdopted' END, 0, v_now,
      jsonb_strip_nulls(jsonb_build_object('node', p.node, 'kind', nullif(p.kind, 'step'), 'fan', p.fan_id, 'idx', nullif(p.idx, 0), 'round', nullif(p.round, 0), 'feeds', p.feeds, 'counts', nullif(p.counts, false), 'max_attempts', nullif(p.max_attempts, 4), 'adopted', p.adopt, 'state', CASE WHEN p.adopt IS NOT NULL THEN p.state END)) FROM p
  )
  SELECT array_agg(p.step_id) INTO v_ready FROM p WHERE p.state = 'ready';
  IF p_barriers IS NOT NULL AND jsonb_array_length(p_barriers) > 0 THEN v_empty := insert_barriers(p_barriers); END IF;
  PERFORM make_ready(v_ready);
  PERFORM spread(v_empty, '{}');
END $$;
