-- purpose: what is derived and belongs to no live run: rows in ready and timers of runs that ended or are gone
-- transition: none
-- fenced by: the run's end, which is never taken back
-- locks: the rows themselves
CREATE FUNCTION rebuild_rest(p_apply boolean) RETURNS TABLE (what text, which uuid, detail text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  x record;
BEGIN
  FOR x IN SELECT y.step_id FROM ready y WHERE NOT EXISTS (SELECT FROM step s, run r WHERE s.step_id = y.step_id AND r.run_id = s.run_id AND r.ended_at IS NULL) LOOP
    IF p_apply THEN DELETE FROM ready y WHERE y.step_id = x.step_id; END IF;
    RETURN QUERY SELECT 'ready', x.step_id, 'its run has ended';
  END LOOP;
  FOR x IN SELECT t.timer_id, t.kind, t.target_id FROM timer t WHERE NOT EXISTS (SELECT FROM run r WHERE r.run_id = t.run_id AND r.ended_at IS NULL) LOOP
    IF p_apply THEN DELETE FROM timer t WHERE t.timer_id = x.timer_id; END IF;
    RETURN QUERY SELECT 'timer', x.target_id, format('%s is due, though its run has ended', x.kind);
  END LOOP;
  IF p_apply THEN DELETE FROM node_stat; END IF;
END $$;
