-- purpose: reopen failed steps while their run is live and their branch holds: one more attempt each, with the same or edited input (for a child its item, for any other step the arguments that it names)
-- transition: step failed -> ready
-- fenced by: the step's state, its run being live, and a join over its fan-out that still waits, looked at under the join's lock
-- locks: steps by id, then the joins over their fan-outs and the barriers they feed, the younger first; the audit chain last
CREATE FUNCTION reopen_steps(p_tenant uuid, p_steps uuid[], p_input jsonb, p_reason text, p_actor text) RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_open uuid[];
  v_done uuid[];
BEGIN
  v_open := ARRAY(SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND s.tenant_id = p_tenant AND s.state = 'failed' AND s.holds
    -- a slot takes nothing back; beside a join that holds nothing counts in slots
    AND NOT EXISTS (SELECT FROM barrier b WHERE b.barrier_id = ANY (s.feeds) AND b.slots > 0) ORDER BY s.step_id FOR NO KEY UPDATE);
  -- a join that is decided at this moment is decided with these steps as failed
  PERFORM FROM barrier b WHERE b.barrier_id = ANY (ARRAY(SELECT b.barrier_id FROM step s, barrier b WHERE s.step_id = ANY (v_open) AND (b.fan_id = s.fan_id OR b.barrier_id = ANY (s.feeds)))) ORDER BY b.barrier_id DESC FOR NO KEY UPDATE;
  v_now := clock();
  WITH u AS (
    UPDATE step s SET state = 'ready', version = s.version + 1, updated_at = v_now, max_attempts = greatest(s.max_attempts, s.attempts + 1),
      input = CASE WHEN p_input IS NULL THEN s.input WHEN s.node = (SELECT f.node FROM step f WHERE f.step_id = s.fan_id) THEN p_input
        -- its arguments come from other steps: what is given goes before them
        ELSE jsonb_build_object('$given', coalesce(s.input->'$given', s.input, '{}') || p_input, 'input', CASE WHEN s.input ? '$given' THEN s.input->'input' ELSE s.input END) END,
      input_blob = CASE WHEN p_input IS NULL THEN s.input_blob END, expires_at = v_now + s.total_ms * interval '1 ms',
      -- joins that opened with it as failed: their Results have it so for good, with this error
      failed_for = nullif(coalesce(s.failed_for, '{}') || coalesce((SELECT jsonb_object_agg(b.barrier_id, coalesce(error_of(s.step_id), 'null')) FROM barrier b WHERE b.barrier_id = ANY (s.feeds) AND b.kind = 'gather' AND b.state = 'released'
        AND b.barrier_id <> ALL (coalesce(s.late_for, '{}')) AND NOT coalesce(s.failed_for ? b.barrier_id::text, false)), '{}'), '{}')
    WHERE s.step_id = ANY (v_open) AND s.state = 'failed' AND (SELECT r.state IN ('created', 'running') FROM run r WHERE r.run_id = s.run_id) AND is_held(s)
    RETURNING s.tenant_id, s.step_id, s.run_id, s.version, s.feeds, s.max_attempts
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body)
    SELECT u.tenant_id, u.run_id, u.step_id, 'StepReopened', u.version, v_now, p_actor, jsonb_build_object('reason', p_reason, 'edited', p_input IS NOT NULL, 'max_attempts', u.max_attempts) FROM u
  ), b AS (
    -- at each of them, decided or not, it will arrive once more
    UPDATE barrier b SET failed = b.failed - x.n, closed = false FROM (SELECT f, count(*)::int AS n FROM u, unnest(u.feeds) f GROUP BY f) x WHERE b.barrier_id = x.f
  )
  SELECT array_agg(u.step_id) INTO v_done FROM u;
  IF v_done IS NULL THEN RETURN; END IF;
  PERFORM make_ready(v_done);
  INSERT INTO audit (tenant_id, actor, action, target, detail) SELECT p_tenant, p_actor, 'step.reopen', d::text, jsonb_build_object('reason', p_reason) FROM unnest(v_done) d;
  RETURN QUERY SELECT unnest(v_done);
END $$;
