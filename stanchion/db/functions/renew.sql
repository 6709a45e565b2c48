-- purpose: the heartbeat of one worker: renew all its leases, record which steps have started, learn which are lost or cancelled
-- transition: step leased -> running; attempt granted -> running
-- fenced by: each step's own fence
-- locks: steps by id (skipping what is being settled at this moment), never the run
CREATE FUNCTION renew(p_worker uuid, p_steps uuid[], p_fences bigint[], p_begun boolean[], p_progress jsonb[], p_ttl_ms bigint) RETURNS TABLE (step_id uuid, verdict text)
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_held uuid[];
  v_lost uuid[];
BEGIN
  SELECT array_agg(x.step_id) INTO v_held FROM (
    SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND s.state IN ('leased', 'running', 'reconciling') AND s.fence = p_fences[array_position(p_steps, s.step_id)]
    ORDER BY s.step_id FOR NO KEY UPDATE SKIP LOCKED) x;
  v_now := clock();
  WITH u AS (
    UPDATE step s SET state = 'running', version = s.version + 1, proof = s.fence, updated_at = v_now
    WHERE s.step_id = ANY (v_held) AND s.state = 'leased' AND p_begun[array_position(p_steps, s.step_id)]
    RETURNING s.tenant_id, s.run_id, s.step_id, s.version, s.fence
  ) INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at) SELECT u.tenant_id, u.run_id, u.step_id, 'StepStarted', u.version, u.fence, v_now FROM u;
  UPDATE attempt t SET started_at = CASE WHEN p_begun[array_position(p_steps, t.step_id)] THEN coalesce(t.started_at, v_now) END,
    state = CASE WHEN p_begun[array_position(p_steps, t.step_id)] THEN 'running' ELSE t.state END,
    deadline_at = CASE WHEN p_begun[array_position(p_steps, t.step_id)] THEN coalesce(t.deadline_at, (SELECT least(v_now + s.timeout_ms * interval '1 ms', s.expires_at) FROM step s WHERE s.step_id = t.step_id)) END,
    progress = coalesce(p_progress[array_position(p_steps, t.step_id)], t.progress),
    lease_until = greatest(t.lease_until, least(v_now + greatest((SELECT s.lease_ms FROM step s WHERE s.step_id = t.step_id), p_ttl_ms) * interval '1 ms', t.deadline_at + interval '2 s'))
  WHERE t.step_id = ANY (v_held) AND t.fence = p_fences[array_position(p_steps, t.step_id)] AND t.ended_at IS NULL;
  -- a heartbeat of an attempt that was taken away is a stale write as any other; one that crosses with the attempt's own end is not
  v_lost := ARRAY(SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND (s.fence <> p_fences[array_position(p_steps, s.step_id)] OR s.state NOT IN ('leased', 'running', 'reconciling'))
    AND NOT EXISTS (SELECT FROM attempt t WHERE t.step_id = s.step_id AND t.fence = p_fences[array_position(p_steps, s.step_id)] AND t.worker_id = p_worker AND t.state IN ('succeeded', 'failed', 'released')));
  IF v_lost <> '{}' THEN PERFORM refuse(p_worker, v_lost, ARRAY(SELECT p_fences[array_position(p_steps, u)] FROM unnest(v_lost) u), '{}', 'renew', 'none'); END IF;
  RETURN QUERY SELECT s.step_id,
    CASE WHEN s.fence <> p_fences[array_position(p_steps, s.step_id)] OR s.state NOT IN ('leased', 'running', 'reconciling') THEN 'lost'
         WHEN s.state <> 'reconciling' AND s.kind <> 'undo' AND (SELECT r.state = 'cancelling' FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id) THEN 'cancel'
         WHEN s.step_id = ANY (v_held) THEN 'ok' ELSE 'busy' END
  FROM step s WHERE s.step_id = ANY (p_steps);
END $$;
