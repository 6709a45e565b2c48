-- purpose: lease as many of the offered steps as are still ready; what does not come back is a duplicate or stale
-- transition: step ready -> leased, unknown -> reconciling, its fence rises by one; a new attempt
-- fenced by: nothing yet: it issues the fence
-- locks: steps by id (skipping locked ones), then runs, then tasks
CREATE FUNCTION lease(p_worker uuid, p_tenants uuid[], p_definitions text[], p_queues text[], p_steps uuid[], p_ttl_ms bigint, p_starting int) RETURNS SETOF leased
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_got uuid[];
  v_new_runs uuid[];
  v_suspects uuid[];
BEGIN
  SELECT array_agg(c.step_id ORDER BY array_position(p_steps, c.step_id)), array_agg(DISTINCT c.run_id) FILTER (WHERE c.run_state = 'created'), array_agg(c.step_id ORDER BY c.step_id) FILTER (WHERE c.losses > 1) INTO v_got, v_new_runs, v_suspects FROM (
    SELECT s.step_id, s.run_id, s.losses, (SELECT r.state FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id) AS run_state
    FROM step s
    WHERE s.step_id = ANY (p_steps) AND (s.state = 'ready' OR s.state = 'unknown' AND EXISTS (SELECT FROM ready y WHERE y.step_id = s.step_id)) AND (p_tenants IS NULL OR s.tenant_id = ANY (p_tenants))
      -- an offer is a message, and proves nothing: the worker gets only what it can run
      AND s.queue = ANY (p_queues) AND s.workflow || '@' || s.workflow_version = ANY (p_definitions)
      -- a scalar subquery: one look into an index that is nearly always empty, whatever the statistics say
      AND (SELECT q.since FROM queue_pause q WHERE q.queue = s.queue AND q.tenant_id = s.tenant_id) IS NULL
      AND (SELECT may_be_leased(s.state, s.kind, r.state, r.paused_at) FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id)
    ORDER BY s.step_id FOR NO KEY UPDATE OF s SKIP LOCKED) c;
  IF v_got IS NULL THEN RETURN; END IF;
  v_now := clock();
  IF v_suspects IS NOT NULL THEN
    -- what was lost twice may be what ends its workers: a worker runs one such at a time, so that its end tells which it was
    IF EXISTS (SELECT FROM attempt a WHERE a.ended_at IS NULL AND a.worker_id = p_worker AND (SELECT s.losses > 1 FROM step s WHERE s.step_id = a.step_id AND s.tenant_id = a.tenant_id)) THEN
      v_got := ARRAY(SELECT u FROM unnest(v_got) WITH ORDINALITY x(u, n) WHERE u <> ALL (v_suspects) ORDER BY n);
    ELSE
      v_got := ARRAY(SELECT u FROM unnest(v_got) WITH ORDINALITY x(u, n) WHERE u <> ALL (v_suspects[2:]) ORDER BY n);
    END IF;
    IF v_got = '{}' THEN RETURN; END IF;
  END IF;
  DELETE FROM ready r WHERE r.step_id = ANY (v_got);
  IF v_new_runs IS NOT NULL THEN PERFORM start_runs(v_new_runs); END IF;
  RETURN QUERY WITH u AS (
    UPDATE step s SET state = CASE s.state WHEN 'ready' THEN 'leased' ELSE 'reconciling' END, version = s.version + 1, fence = s.fence + 1, updated_at = v_now
    WHERE s.step_id = ANY (v_got)
    RETURNING s.*, old.updated_at AS was_ready_at, (array_position(v_got, s.step_id) <= p_starting OR s.losses > 0) AS begins
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor)
    SELECT u.tenant_id, u.run_id, u.step_id, CASE u.state WHEN 'leased' THEN 'StepLeased' ELSE 'StepProbed' END, u.version, u.fence, v_now, p_worker::text FROM u
  ), a AS (
    -- what begins at once is known to have begun: if its worker dies, that is a loss that counts. The rest was only handed out.
    INSERT INTO attempt (tenant_id, step_id, run_id, worker_id, fence, number, state, granted_at, started_at, deadline_at, lease_until, ready_at)
    SELECT u.tenant_id, u.step_id, u.run_id, p_worker, u.fence, u.attempts + 1, 'granted', v_now, CASE WHEN u.begins THEN v_now END,
           CASE WHEN u.begins AND u.state = 'leased' THEN least(v_now + u.timeout_ms * interval '1 ms', u.expires_at) END, v_now + greatest(u.lease_ms, p_ttl_ms) * interval '1 ms',
           CASE WHEN u.state = 'leased' THEN u.was_ready_at END FROM u
  )
  SELECT CASE WHEN u.state <> 'leased' THEN 'probe' WHEN u.kind = 'undo' THEN 'undo' ELSE 'granted' END, u.tenant_id, (SELECT r.task_id FROM run r WHERE r.run_id = u.run_id AND r.tenant_id = u.tenant_id), u.run_id, u.step_id, u.fence, u.workflow, u.workflow_version, u.node,
         u.fan_id, u.idx, u.round, u.attempts + 1, u.max_attempts::int, u.begins, CASE u.state WHEN 'leased' THEN least(u.timeout_ms, CASE WHEN u.expires_at IS NOT NULL THEN greatest(ceil(extract(epoch FROM u.expires_at - v_now) * 1000), 1) END)::bigint END, greatest(u.lease_ms, p_ttl_ms), u.input, u.input_blob, u.sources,
         CASE WHEN u.sources IS NOT NULL THEN (
           SELECT jsonb_agg((SELECT jsonb_build_object('b', x.body, 'h', encode(x.blob, 'hex')) FROM result x WHERE x.step_id = o.id AND x.tenant_id = u.tenant_id) ORDER BY o.n)
           FROM unnest(u.sources) WITH ORDINALITY o(id, n)) END
  FROM u;
END $$;
