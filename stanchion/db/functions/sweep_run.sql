-- purpose: wind a run down: cancel what has not started, take what outlived its grace, undo what it did where its workflow asks for that, end the run when nothing is open any more
-- transition: step pending|ready|retry_wait|waiting -> cancelled, leased|running -> cancelled after the grace; run cancelling -> failed|cancelled
-- fenced by: the run being in cancelling
-- locks: an advisory lock on the run's sweep; steps by id (skipping locked ones); then its barriers, the run, the task
CREATE FUNCTION sweep_run(p_run uuid, p_limit int, p_grace_ms int) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  r run;
  v_seen uuid[];
  v_cancelled uuid[];
  v_ids uuid[];
  v_idle text[] := ARRAY['pending', 'ready', 'retry_wait', 'waiting'];
  v_held text[] := ARRAY['leased', 'running'];
  v_doubtful text[] := ARRAY['unknown', 'reconciling'];
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('sweep:' || p_run::text, 0)) THEN RETURN 'taken'; END IF;
  SELECT * INTO r FROM run x WHERE x.run_id = p_run AND x.state = 'cancelling';
  IF NOT FOUND THEN RETURN 'gone'; END IF;
  IF r.updated_at + p_grace_ms * interval '1 ms' < clock() THEN v_idle := v_idle || v_held; END IF;
  -- once through all steps, so many at a time
  SELECT array_agg(y.step_id ORDER BY y.step_id), array_agg(y.step_id) FILTER (WHERE y.state = ANY (v_idle)) INTO v_seen, v_ids
  FROM (SELECT s.step_id, CASE s.kind WHEN 'undo' THEN 'undo' ELSE s.state END AS state FROM step s WHERE s.run_id = p_run AND s.step_id > coalesce(r.swept_to, '00000000-0000-0000-0000-000000000000') ORDER BY s.step_id LIMIT p_limit) y;
  IF v_ids IS NOT NULL THEN PERFORM conclude(withdraw_approvals(cancel_steps(v_ids, r.reason), r.reason)); END IF;
  IF v_seen IS NOT NULL THEN
    UPDATE run x SET swept_to = v_seen[cardinality(v_seen)] WHERE x.run_id = p_run;
    RETURN 'sweeping';
  END IF;
  -- then what is left: rows that were locked were passed over, and what runs may have become ready again
  v_ids := ARRAY(SELECT s.step_id FROM step s WHERE s.run_id = p_run AND s.state = ANY (v_idle) AND s.kind <> 'undo' LIMIT p_limit);
  IF v_ids <> '{}' THEN
    v_cancelled := cancel_steps(v_ids, r.reason);
    PERFORM conclude(withdraw_approvals(v_cancelled, r.reason));
    IF v_cancelled <> '{}' THEN RETURN 'sweeping'; END IF;
  END IF;
  IF EXISTS (SELECT FROM step s WHERE s.run_id = p_run AND s.state = ANY (v_idle || v_held || v_doubtful)) THEN RETURN 'waiting'; END IF;
  -- once more under the run's lock: whoever inserts steps into the run holds it until they can be seen
  -- its barriers before it: a join's deadline may fire at this moment, and takes them in this order
  PERFORM FROM barrier b WHERE b.run_id = p_run AND b.state = 'waiting' ORDER BY b.barrier_id DESC FOR NO KEY UPDATE;
  PERFORM FROM run x WHERE x.run_id = p_run FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM step s WHERE s.run_id = p_run AND s.state = ANY (v_idle || v_held || v_doubtful)) THEN RETURN 'waiting'; END IF;
  IF compensate_next(r) THEN RETURN 'sweeping'; END IF;
  PERFORM end_run(p_run);
  RETURN 'ended';
END $$;
