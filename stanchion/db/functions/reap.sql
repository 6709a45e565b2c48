-- purpose: take back leases that expired, by the database's clock, or (p_only) one of them; a loss counts when the step had begun
-- transition: step leased|running|reconciling -> ready, failed when its attempts are used up, or unknown when it had sent something; attempt -> lost
-- fenced by: the attempt's expiry, checked again under the step's lock
-- locks: steps by id (skipping locked ones), then slots, barriers, held steps, runs, tasks
CREATE FUNCTION reap(p_limit int, p_only uuid DEFAULT NULL) RETURNS TABLE (step_id uuid, state text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_ids uuid[];
  v_ready uuid[] := '{}';
  v_dead uuid[] := '{}';
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
  v_now timestamptz := clock();
  v_aside uuid[] := aside('lease');
  s step;
  t attempt;
  v_final boolean;
  v_workers uuid[];
  v_worst int[];
  v_x record;
BEGIN
  IF p_only IS NULL THEN
    SELECT array_agg(x.step_id) INTO v_ids FROM (SELECT a.step_id FROM attempt a WHERE a.ended_at IS NULL AND a.lease_until < v_now AND a.step_id <> ALL (v_aside) ORDER BY a.lease_until LIMIT p_limit) x;
  ELSE
    v_ids := ARRAY[p_only];
  END IF;
  IF v_ids IS NULL THEN RETURN; END IF;
  -- a worker's end is put down to the step that was lost most often: once it is known for that, its neighbours lose no attempt with it
  SELECT array_agg(x.worker_id), array_agg(x.losses) INTO v_workers, v_worst FROM (
    SELECT a.worker_id, max((SELECT n.losses FROM step n WHERE n.step_id = a.step_id AND n.tenant_id = a.tenant_id)) AS losses FROM attempt a
    WHERE a.step_id = ANY (v_ids) AND a.ended_at IS NULL AND a.started_at IS NOT NULL GROUP BY a.worker_id) x WHERE x.losses > 1;
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) AND x.state IN ('leased', 'running', 'reconciling') ORDER BY x.step_id FOR NO KEY UPDATE SKIP LOCKED LOOP
    UPDATE attempt a SET state = 'lost', ended_at = clock(), counted = s.state <> 'reconciling' AND s.doubts = 0 AND a.started_at IS NOT NULL AND s.losses >= coalesce(v_worst[array_position(v_workers, a.worker_id)], 0),
      error = jsonb_build_object('code', CASE WHEN a.deadline_at < clock() THEN 'E-STEP-22' ELSE 'E-LEASE-03' END, 'what', CASE WHEN a.deadline_at < clock() THEN 'it ran into its timeout' ELSE 'its worker was lost' END)
    WHERE a.step_id = s.step_id AND a.fence = s.fence AND a.ended_at IS NULL AND a.lease_until < clock() RETURNING * INTO t;
    CONTINUE WHEN NOT FOUND;
    IF s.doubts > 0 THEN
      PERFORM doubt_step(s, -1, 'reaper', 0, jsonb_build_object('worker', t.worker_id, 'error', t.error));
      step_id := s.step_id; state := 'unknown';
      RETURN NEXT;
      CONTINUE;
    END IF;
    v_final := (t.counted AND s.attempts + 1 >= s.max_attempts) OR (s.state <> 'reconciling' AND coalesce(s.expires_at <= clock(), false));
    UPDATE step x SET state = CASE WHEN v_final THEN 'failed' ELSE 'ready' END, version = x.version + 1, proof = -1, updated_at = clock(),
      attempts = x.attempts + t.counted::int, losses = least(x.losses + 1, 30000) WHERE x.step_id = s.step_id RETURNING * INTO s;
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, actor, body)
    VALUES (s.tenant_id, s.run_id, s.step_id, 'StepLost', s.version, s.fence, 'reaper', jsonb_build_object('counted', t.counted, 'worker', t.worker_id, 'error', t.error, 'attempts', s.attempts));
    IF v_final THEN
      SELECT * INTO v_x FROM step_failed(s, t.error);
      v_dead := v_dead || s.step_id || v_x.o_skipped;
      v_arrivals := v_arrivals || v_x.o_arrivals;
      v_after := v_after || v_x.o_after;
    ELSE
      v_ready := v_ready || s.step_id;
    END IF;
    step_id := s.step_id; state := s.state;
    RETURN NEXT;
  END LOOP;
  PERFORM make_ready(v_ready);
  PERFORM spread(v_arrivals, v_dead, v_after);
END $$;
