-- purpose: accept the results of a batch, let them arrive where they are awaited, end runs that are done, lease what became ready to the same worker; a row `posted` tells that there is something for the relay
-- transition: step leased|running -> succeeded; attempt -> succeeded
-- fenced by: each step's own fence; a stale member of the batch is refused, recorded, and harms no other
-- locks: steps by id, then slots, barriers, held steps, runs, tasks
CREATE FUNCTION complete(p_worker uuid, p_steps uuid[], p_fences bigint[], p_bodies jsonb[], p_blobs bytea[],
  p_tenants uuid[], p_definitions text[], p_queues text[], p_room int, p_ttl_ms bigint) RETURNS SETOF leased
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_done uuid[];
  v_arrivals arrival[];
  v_after aftermath[];
  v_ready uuid[];
  v_more aftermath[];
  v_mine uuid[];
  v_late uuid[];
  v_choosers uuid[];
  v_timed uuid[];
  v_others uuid[];
  v_posted boolean;
  s step;
  v_x record;
BEGIN
  PERFORM FROM step s WHERE s.step_id = ANY (p_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  v_now := clock();
  -- the current fence is the law: a lease that ran out and that nobody took is still the holder's, and the event says so
  v_late := ARRAY(SELECT t.step_id FROM attempt t WHERE t.step_id = ANY (p_steps) AND t.ended_at IS NULL AND t.lease_until < v_now);
  WITH u AS (
    UPDATE step s SET state = 'succeeded', version = s.version + 1, attempts = s.attempts + 1, proof = p_fences[array_position(p_steps, s.step_id)], updated_at = v_now
    WHERE s.step_id = ANY (p_steps) AND s.state IN ('leased', 'running') AND s.doubts = 0 AND s.fence = p_fences[array_position(p_steps, s.step_id)]
    RETURNING s.tenant_id, s.step_id, s.run_id, s.feeds, s.idx, s.fence, s.version, s.counts, s.chooses, s.start_within_ms IS NOT NULL OR s.expires_at IS NOT NULL AS timed, old.state = 'leased' AS fresh, array_position(p_steps, s.step_id) AS i
  ), r AS (
    INSERT INTO result (tenant_id, step_id, fence, body, blob) SELECT u.tenant_id, u.step_id, u.fence, p_bodies[u.i], p_blobs[u.i] FROM u
  ), a AS (
    -- an attempt that is open belongs to the current fence, so these are exactly those of u
    UPDATE attempt t SET state = 'succeeded', ended_at = v_now, counted = true, started_at = coalesce(t.started_at, t.granted_at)
    WHERE t.step_id = ANY (p_steps) AND t.fence = p_fences[array_position(p_steps, t.step_id)] AND t.ended_at IS NULL
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
    SELECT u.tenant_id, u.run_id, u.step_id, k.kind, u.version, u.fence, v_now, CASE WHEN k.kind = 'StepSucceeded' AND u.step_id = ANY (v_late) THEN '{"late": true}'::jsonb END FROM u CROSS JOIN (VALUES ('StepStarted'), ('StepSucceeded')) k(kind) WHERE u.fresh OR k.kind = 'StepSucceeded'
  )
  SELECT array_agg(u.step_id), array_agg(ROW(u.run_id, 1, NULL, NULL, NULL)::aftermath) FILTER (WHERE u.counts), array_agg(u.step_id) FILTER (WHERE u.chooses IS NOT NULL), array_agg(u.step_id) FILTER (WHERE u.timed),
    (SELECT array_agg(ROW(x.f, x.slot * limits.SLOT_RUN, x.n, 0, 0)::arrival) FROM (SELECT f, slot_of(v.idx) AS slot, count(*)::int AS n FROM u v, unnest(v.feeds) f GROUP BY 1, 2) x)
  INTO v_done, v_after, v_choosers, v_timed, v_arrivals FROM u;
  IF v_timed IS NOT NULL THEN DELETE FROM timer t WHERE t.target_id = ANY (v_timed); END IF;
  FOR s IN SELECT y.* FROM step y WHERE y.step_id = ANY (v_choosers) ORDER BY y.step_id LOOP
    -- it could have chosen with Go and returned a value: all its targets are skipped
    SELECT * INTO v_x FROM choose(s, NULL);
    v_arrivals := v_arrivals || v_x.o_arrivals;
    v_after := v_after || v_x.o_after;
  END LOOP;
  IF v_arrivals IS NOT NULL THEN
    SELECT a.o_ready, a.o_after INTO v_ready, v_more FROM arrive(v_arrivals, v_done) a;
    v_after := v_after || v_more;
    IF cardinality(v_ready) > 0 THEN
      -- what became ready goes to the worker that is here, when it serves it: no trip through the broker
      SELECT array_agg(x.step_id) INTO v_mine FROM (
        SELECT s.step_id FROM step s WHERE s.step_id = ANY (v_ready) AND s.queue = ANY (p_queues) AND s.workflow || '@' || s.workflow_version = ANY (p_definitions)
          AND (p_tenants IS NULL OR s.tenant_id = ANY (p_tenants)) ORDER BY s.step_id LIMIT p_room) x;
      v_others := ARRAY(SELECT u FROM unnest(v_ready) u WHERE u <> ALL (coalesce(v_mine, '{}')));
      PERFORM make_ready(v_others);
    END IF;
  END IF;
  v_posted := conclude(v_after) OR cardinality(v_others) > 0;
  IF coalesce(cardinality(v_done), 0) < cardinality(p_steps) THEN
    v_done := v_done || refuse(p_worker, p_steps, p_fences, v_done, 'complete', 'succeeded');
  END IF;
  RETURN QUERY SELECT d.outcome, NULL::uuid, NULL::uuid, NULL::uuid, d.id, NULL::bigint, NULL, NULL::int, NULL, NULL::uuid, NULL::int, NULL::int, NULL::int, NULL::int, NULL::boolean, NULL::bigint, NULL::bigint, NULL::jsonb, NULL::bytea, NULL::uuid[], NULL::jsonb
    FROM (SELECT 'done', u FROM unnest(v_done) u UNION ALL SELECT 'posted', NULL WHERE v_posted) d(outcome, id);
  IF v_mine IS NOT NULL THEN
    RETURN QUERY SELECT * FROM lease(p_worker, p_tenants, p_definitions, p_queues, v_mine, p_ttl_ms, p_room);
    -- what the lease left out (its run was paused meanwhile) must still be found by others; an offer of it may go a moment later
    PERFORM make_ready(ARRAY(SELECT s.step_id FROM step s WHERE s.step_id = ANY (v_mine) AND s.state = 'ready'));
  END IF;
END $$;
