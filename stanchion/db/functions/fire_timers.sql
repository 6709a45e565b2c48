-- purpose: do what is due: retries, deadlines of barriers, steps and tasks; expansions are the planner's
-- transition: step retry_wait -> ready, pending|ready|retry_wait -> failed; barrier waiting -> failed; run -> cancelling
-- fenced by: each target's state and version, looked at under its lock
-- locks: for each timer its target (steps skip locked ones), then what follows from it; timers only after their targets
CREATE FUNCTION fire_timers(p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  t timer;
  v_fired int := 0;
  v_ready uuid[] := '{}';
BEGIN
  FOR t IN SELECT x.* FROM timer x WHERE x.due_at <= clock() AND x.kind <> 'expand' ORDER BY x.due_at LIMIT p_limit LOOP
    CASE t.kind
      WHEN 'retry' THEN v_ready := v_ready || fire_retry(t);
      WHEN 'barrier_deadline' THEN PERFORM fire_barrier_deadline(t);
      WHEN 'step_deadline' THEN PERFORM fire_step_deadline(t);
      WHEN 'task_deadline' THEN
        PERFORM wind_down(t.run_id, 'failed', jsonb_build_object('code', 'E-TASK-06', 'what', 'the task''s deadline passed'), 'timer');
        DELETE FROM timer x WHERE x.timer_id = t.timer_id;
      ELSE DELETE FROM timer x WHERE x.timer_id = t.timer_id;
    END CASE;
    v_fired := v_fired + 1;
  END LOOP;
  PERFORM make_ready(nullif(v_ready, '{}'));
  RETURN v_fired;
END $$;
