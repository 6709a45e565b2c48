-- purpose: hand back leases at shutdown, or what was leased ahead and can't start soon; it costs no attempt
-- transition: step leased|running|reconciling -> ready, or unknown; attempt -> released
-- fenced by: each step's own fence
-- locks: steps by id
CREATE FUNCTION give_back(p_worker uuid, p_steps uuid[], p_fences bigint[], p_why text) RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_done uuid[];
  v_aside uuid[];
BEGIN
  PERFORM FROM step s WHERE s.step_id = ANY (p_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  v_now := clock();
  v_aside := set_aside_doubtful(p_worker, p_steps, p_fences, ARRAY(SELECT jsonb_build_object('code', 'E-OP-10', 'what', p_why) FROM unnest(p_steps)), 0);
  WITH u AS (
    UPDATE step s SET state = 'ready', version = s.version + 1, proof = p_fences[array_position(p_steps, s.step_id)], updated_at = v_now
    WHERE s.step_id = ANY (p_steps) AND s.state IN ('leased', 'running', 'reconciling') AND s.fence = p_fences[array_position(p_steps, s.step_id)]
    RETURNING s.tenant_id, s.step_id, s.run_id, s.version, s.fence
  ), a AS (
    UPDATE attempt t SET state = 'released', ended_at = v_now WHERE t.step_id = ANY (p_steps) AND t.fence = p_fences[array_position(p_steps, t.step_id)] AND t.ended_at IS NULL
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
    SELECT u.tenant_id, u.run_id, u.step_id, 'StepReleased', u.version, u.fence, v_now, jsonb_build_object('why', p_why) FROM u
  )
  SELECT array_agg(u.step_id) INTO v_done FROM u;
  PERFORM make_ready(v_done);
  v_done := v_done || v_aside;
  IF coalesce(cardinality(v_done), 0) < cardinality(p_steps) THEN
    RETURN QUERY SELECT unnest(refuse(p_worker, p_steps, p_fences, v_done, 'give_back', 'released'));
  END IF;
  RETURN QUERY SELECT unnest(v_done);
END $$;
