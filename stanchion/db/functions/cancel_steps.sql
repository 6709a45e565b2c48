-- purpose: cancel steps, and take from their holders those that run
-- transition: step pending|ready|retry_wait|waiting|leased|running -> cancelled, or unknown (what may have done something); attempt -> superseded
-- fenced by: for held steps the run being in cancelling (the canceller)
-- locks: steps by id, skipping locked ones
CREATE FUNCTION cancel_steps(p_steps uuid[], p_reason jsonb) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  d step;
  v_ids uuid[] := ARRAY(
    SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND s.state IN ('pending', 'ready', 'retry_wait', 'waiting', 'leased', 'running') ORDER BY s.step_id FOR NO KEY UPDATE SKIP LOCKED);
BEGIN
  IF v_ids = '{}' THEN RETURN v_ids; END IF;
  FOR d IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) AND x.doubts = 0 AND x.state <> 'pending' AND EXISTS (SELECT FROM operation o WHERE o.step_id = x.step_id AND may_still_land(o)) ORDER BY x.step_id LOOP
    PERFORM doubt_unsent(d, p_reason);
    IF d.state NOT IN ('leased', 'running') THEN v_ids := array_remove(v_ids, d.step_id); END IF;
  END LOOP;
  -- what has sent something and does not know its fate is asked after before it ends
  FOR d IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) AND x.doubts > 0 ORDER BY x.step_id LOOP
    UPDATE attempt t SET state = 'superseded', ended_at = clock(), error = p_reason WHERE t.step_id = d.step_id AND t.ended_at IS NULL;
    PERFORM doubt_step(d, -2, 'canceller', 0, p_reason);
    v_ids := array_remove(v_ids, d.step_id);
  END LOOP;
  v_now := clock();
  DELETE FROM ready y WHERE y.step_id = ANY (v_ids);
  DELETE FROM timer t WHERE t.target_id = ANY (v_ids);
  WITH u AS (
    UPDATE step s SET state = 'cancelled', version = s.version + 1, updated_at = v_now, proof = CASE WHEN s.state IN ('leased', 'running') THEN -2 ELSE 0 END WHERE s.step_id = ANY (v_ids)
    RETURNING s.tenant_id, s.run_id, s.step_id, s.version, CASE WHEN old.state IN ('leased', 'running') THEN s.fence END AS fence
  ), a AS (
    UPDATE attempt t SET state = 'superseded', ended_at = v_now, error = p_reason WHERE t.step_id = ANY (v_ids) AND t.ended_at IS NULL
  )
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body) SELECT u.tenant_id, u.run_id, u.step_id, 'StepCancelled', u.version, u.fence, v_now, 'canceller', p_reason FROM u;
  RETURN v_ids;
END $$;
