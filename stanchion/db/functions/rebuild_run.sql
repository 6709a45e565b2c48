-- purpose: what is derived from a live run's steps and joins: its rows in ready, its timers, its open count, its joins' counts; tells what is wrong, and with p_apply puts it right
-- transition: none; a join that a right count opens is decided as by an arrival
-- fenced by: each row is looked at again under its step's lock
-- locks: steps by id, then slots and barriers, then the run
CREATE FUNCTION rebuild_run(p_run uuid, p_apply boolean) RETURNS TABLE (what text, which uuid, detail text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock();
  v_ready uuid[] := '{}';
  v_open int;
  x record;
BEGIN
  IF NOT EXISTS (SELECT FROM run r WHERE r.run_id = p_run AND r.ended_at IS NULL) THEN RETURN; END IF;
  IF p_apply THEN PERFORM FROM step s WHERE s.run_id = p_run AND s.state IN ('ready', 'retry_wait', 'waiting', 'unknown') ORDER BY s.step_id FOR NO KEY UPDATE; END IF;
  FOR x IN SELECT s.step_id FROM step s WHERE s.run_id = p_run AND s.state = 'ready' AND NOT EXISTS (SELECT FROM ready y WHERE y.step_id = s.step_id) ORDER BY s.step_id LOOP
    v_ready := v_ready || x.step_id;
    RETURN QUERY SELECT 'ready', x.step_id, 'a ready step that no worker can find';
  END LOOP;
  FOR x IN SELECT y.step_id, s.state FROM step s JOIN ready y ON y.step_id = s.step_id WHERE s.run_id = p_run AND s.state NOT IN ('ready', 'unknown') LOOP
    IF p_apply THEN DELETE FROM ready y WHERE y.step_id = x.step_id; END IF;
    RETURN QUERY SELECT 'ready', x.step_id, format('offered, though it is %s', x.state);
  END LOOP;
  FOR x IN SELECT * FROM missing_timers(p_run) LOOP
    IF p_apply THEN
      INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (x.tenant_id, x.kind, x.due_at, p_run, x.target_id, x.version);
    END IF;
    RETURN QUERY SELECT 'timer', x.target_id, format('%s is missing, due %s', x.kind, x.due_at AT TIME ZONE 'UTC');
  END LOOP;
  FOR x IN
    SELECT t.timer_id, t.kind, t.target_id FROM timer t WHERE t.target_id IN (SELECT s.step_id FROM step s WHERE s.run_id = p_run)
      AND NOT EXISTS (SELECT FROM step s WHERE s.step_id = t.target_id AND CASE t.kind WHEN 'retry' THEN s.state = 'retry_wait' AND s.version = t.version WHEN 'expand' THEN s.state = 'waiting' WHEN 'approval' THEN s.state = 'waiting' WHEN 'probe' THEN s.state = 'unknown' AND s.version = t.version
        ELSE s.state NOT IN ('succeeded', 'failed', 'cancelled', 'skipped') END)
    UNION ALL SELECT t.timer_id, t.kind, t.target_id FROM timer t, barrier b WHERE b.run_id = p_run AND t.target_id = b.barrier_id AND b.state <> 'waiting'
  LOOP
    IF p_apply THEN DELETE FROM timer t WHERE t.timer_id = x.timer_id; END IF;
    RETURN QUERY SELECT 'timer', x.target_id, format('%s is due, though there is nothing to do', x.kind);
  END LOOP;
  IF p_apply THEN PERFORM make_ready(v_ready); END IF;
  FOR x IN SELECT b AS b, b.barrier_id FROM barrier b WHERE b.run_id = p_run AND b.kind = 'gather' AND b.state = 'waiting' AND is_miscounted(b) ORDER BY b.barrier_id LOOP
    IF p_apply THEN PERFORM recount_barrier(x.barrier_id); END IF;
    RETURN QUERY SELECT 'barrier', x.barrier_id, 'its counts are not those of its branches';
  END LOOP;
  IF p_apply THEN PERFORM FROM run r WHERE r.run_id = p_run FOR NO KEY UPDATE; END IF;
  SELECT count(*)::int INTO v_open FROM step s WHERE s.run_id = p_run AND s.counts AND s.state NOT IN ('succeeded', 'skipped', 'cancelled');
  FOR x IN SELECT r.open FROM run r WHERE r.run_id = p_run AND r.state IN ('created', 'running') AND r.open <> v_open LOOP
    IF p_apply THEN
      -- at nothing open the run ends, as after the last step: leave one to be counted down
      UPDATE run r SET open = greatest(v_open, 1), updated_at = v_now WHERE r.run_id = p_run;
      IF v_open = 0 THEN PERFORM conclude(ARRAY[ROW(p_run, 1, NULL, NULL, NULL)::aftermath]); END IF;
    END IF;
    RETURN QUERY SELECT 'run', p_run, format('it counts %s as open, %s are', x.open, v_open);
  END LOOP;
END $$;
