-- purpose: do what is due, or (p_only) one of it: retries, deadlines of joins, steps, approvals and tasks; expansions are the planner's
-- transition: step retry_wait -> ready, pending|ready|retry_wait -> failed, waiting -> succeeded|failed; barrier waiting -> failed; run -> cancelling
-- fenced by: each target's state and version, looked at under its lock
-- locks: all steps first (skipping locked ones), then what follows from them; a join's deadline has a transaction of its own, since it starts with a barrier
CREATE FUNCTION fire_timers(p_limit int, p_only uuid DEFAULT NULL) RETURNS TABLE (fired int, more boolean) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_aside uuid[] := aside('timer');
  t timer;
  d record;
  v_fired int := 0;
  v_ready uuid[] := '{}';
  v_failed uuid[] := '{}';
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
BEGIN
  FOR t IN
    (SELECT x.* FROM timer x WHERE p_only IS NULL AND x.due_at <= v_now AND x.kind <> 'expand' AND x.timer_id <> ALL (v_aside) ORDER BY x.due_at LIMIT p_limit)
    UNION ALL SELECT x.* FROM timer x WHERE x.timer_id = p_only AND x.due_at <= v_now AND x.kind <> 'expand'
  LOOP
    IF t.kind = 'barrier_deadline' THEN
      CONTINUE WHEN v_fired > 0;
      PERFORM fire_barrier_deadline(t);
      RETURN QUERY SELECT 1, true;
      RETURN;
    END IF;
    v_fired := v_fired + 1;
    IF t.kind = 'retry' THEN
      v_ready := v_ready || fire_retry(t);
    ELSIF t.kind = 'probe' THEN
      v_ready := v_ready || fire_probe(t);
    ELSIF t.kind = 'approval' THEN
      SELECT * INTO d FROM fire_approval(t);
      v_arrivals := v_arrivals || d.o_arrivals;
      v_after := v_after || d.o_after;
      v_failed := v_failed || d.o_settled;
    ELSIF t.kind IN ('start_deadline', 'step_deadline') THEN
      SELECT * INTO d FROM fire_step_deadline(t);
      v_arrivals := v_arrivals || d.o_arrivals;
      v_after := v_after || d.o_after;
      v_failed := v_failed || d.o_settled;
    ELSE
      IF t.kind = 'task_deadline' THEN
        v_after := v_after || ROW(t.run_id, 0, jsonb_build_object('code', 'E-TASK-03', 'what', 'the task''s deadline passed'), NULL, NULL)::aftermath;
      END IF;
      DELETE FROM timer x WHERE x.timer_id = t.timer_id;
    END IF;
  END LOOP;
  PERFORM make_ready(v_ready);
  PERFORM spread(v_arrivals, v_failed, v_after);
  RETURN QUERY SELECT v_fired, v_fired = p_limit;
END $$;
