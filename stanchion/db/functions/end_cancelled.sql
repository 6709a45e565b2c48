-- purpose: the holder of a step of a run that winds down reports that it has stopped
-- transition: step leased|running -> cancelled; attempt -> superseded
-- fenced by: each step's own fence, and the run being in cancelling
-- locks: steps by id
CREATE FUNCTION end_cancelled(p_worker uuid, p_steps uuid[], p_fences bigint[]) RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_aside uuid[];
BEGIN
  PERFORM FROM step s WHERE s.step_id = ANY (p_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  v_now := clock();
  v_aside := set_aside_doubtful(p_worker, p_steps, p_fences, ARRAY(SELECT jsonb_build_object('code', 'E-OP-10', 'what', 'it was cancelled') FROM unnest(p_steps)), 0);
  RETURN QUERY SELECT unnest(v_aside);
  RETURN QUERY WITH u AS (
    UPDATE step s SET state = 'cancelled', version = s.version + 1, proof = s.fence, updated_at = v_now
    WHERE s.step_id = ANY (p_steps) AND s.state IN ('leased', 'running') AND s.fence = p_fences[array_position(p_steps, s.step_id)]
      AND (SELECT r.state = 'cancelling' FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id)
    RETURNING s.tenant_id, s.run_id, s.step_id, s.version, s.fence
  ), a AS (
    UPDATE attempt t SET state = 'superseded', ended_at = v_now WHERE t.step_id = ANY (ARRAY(SELECT u.step_id FROM u)) AND t.fence = p_fences[array_position(p_steps, t.step_id)] AND t.ended_at IS NULL
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor) SELECT u.tenant_id, u.run_id, u.step_id, 'StepCancelled', u.version, u.fence, v_now, p_worker::text FROM u
  ) SELECT u.step_id FROM u;
END $$;
