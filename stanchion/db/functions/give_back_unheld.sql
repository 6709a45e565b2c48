-- purpose: hand back what was leased to a worker that never learned of it, since the answer was lost: no code of it ran, so it costs no attempt
-- transition: those of give_back
-- fenced by: each step's own fence, as the worker's open attempt has it; an attempt that was reported to run is held by somebody
-- locks: steps by id
CREATE FUNCTION give_back_unheld(p_worker uuid, p_steps uuid[], p_fences bigint[]) RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_steps uuid[];
  v_fences bigint[];
BEGIN
  v_steps := ARRAY(SELECT a.step_id FROM attempt a WHERE a.ended_at IS NULL AND a.worker_id = p_worker AND a.state = 'granted' AND (a.step_id, a.fence) NOT IN (SELECT * FROM unnest(p_steps, p_fences)));
  IF v_steps = '{}' THEN RETURN; END IF;
  PERFORM FROM step s WHERE s.step_id = ANY (v_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  -- that it would begin at once was said when it was granted; its time to start runs on. Looked at again under the lock: the reaper may have been faster
  WITH u AS (
    UPDATE attempt a SET started_at = NULL, deadline_at = NULL
    WHERE a.step_id = ANY (v_steps) AND a.ended_at IS NULL AND a.worker_id = p_worker AND a.state = 'granted' AND (a.step_id, a.fence) NOT IN (SELECT * FROM unnest(p_steps, p_fences)) RETURNING a.step_id, a.fence
  ) SELECT array_agg(u.step_id), array_agg(u.fence) INTO v_steps, v_fences FROM u;
  IF v_steps IS NOT NULL THEN RETURN QUERY SELECT * FROM give_back(p_worker, v_steps, v_fences, 'the answer to its lease was lost'); END IF;
END $$;
