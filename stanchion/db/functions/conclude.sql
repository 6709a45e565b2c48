-- purpose: the last act of every transaction that settles something: publish what happened to joins, fail runs that can't go on, move tasks that people are asked about, count down what is open and end the runs that have nothing open left; tell whether that put anything into the outbox
-- transition: run created|running -> cancelling|succeeded; task accepted|running -> completed, running -> awaiting_approval, awaiting_approval -> running
-- fenced by: the caller
-- locks: runs by id, then tasks by id: nothing else is locked after a run
CREATE FUNCTION conclude(p_after aftermath[], OUT o_posted boolean) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_ids uuid[];
  v_n int[];
  v_tasks uuid[];
  v_sequences bigint[];
  v_asked uuid[] := '{}';
  x record;
BEGIN
  o_posted := false;
  IF p_after IS NULL OR cardinality(p_after) = 0 THEN RETURN; END IF;
  SELECT array_agg(y.run_id), array_agg(y.n) INTO v_ids, v_n FROM (SELECT u.run_id, sum(u.settled)::int AS n FROM unnest(p_after) u GROUP BY u.run_id) y;
  PERFORM FROM run r WHERE r.run_id = ANY (v_ids) ORDER BY r.run_id FOR NO KEY UPDATE;
  v_now := clock();
  FOR x IN SELECT u.* FROM unnest(p_after) WITH ORDINALITY u(run_id, settled, reason, news, body, n) WHERE u.news IS NOT NULL OR u.reason IS NOT NULL ORDER BY u.n LOOP
    o_posted := true;
    IF x.news IS NOT NULL THEN
      -- the run's row is locked, so its numbers follow the order of commits
      INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, sequence, body)
      SELECT outbox_partition_of(r.run_id), r.tenant_id, 'stanchion.events.v1', r.run_id::text, x.news, r.run_id::text, next_sequence(r.run_id), (jsonb_build_object('task_id', r.task_id, 'run_id', r.run_id) || x.body)::text
      FROM run r WHERE r.run_id = x.run_id;
    END IF;
    IF x.reason IS NOT NULL THEN
      PERFORM wind_down(x.run_id, CASE x.news WHEN 'ApprovalDecided' THEN 'rejected' ELSE 'failed' END, x.reason, 'engine');
    END IF;
    IF x.news IN ('ApprovalRequested', 'ApprovalDecided') THEN v_asked := v_asked || x.run_id; END IF;
  END LOOP;
  IF v_asked <> '{}' THEN PERFORM await_people(v_asked); END IF;
  WITH u AS (
    UPDATE run r SET open = r.open - v_n[array_position(v_ids, r.run_id)], updated_at = v_now,
      state = CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN 'succeeded' ELSE r.state END,
      version = r.version + CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN 1 ELSE 0 END,
      seq = r.seq + CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN 1 ELSE 0 END,
      ended_at = CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN v_now END
    WHERE r.run_id = ANY (v_ids) AND r.state IN ('created', 'running') AND v_n[array_position(v_ids, r.run_id)] > 0
    RETURNING r.tenant_id, r.run_id, r.task_id, r.version, r.state, r.seq
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT u.tenant_id, u.run_id, 'RunSucceeded', u.version, v_now FROM u WHERE u.state = 'succeeded'
  )
  SELECT array_agg(u.task_id), array_agg(u.seq) INTO v_tasks, v_sequences FROM u WHERE u.state = 'succeeded';
  IF v_tasks IS NOT NULL THEN
    o_posted := true;
    PERFORM end_tasks(v_tasks, 'completed', NULL, v_sequences);
  END IF;
END $$;
