-- purpose: offer all ready steps of a task again, at once: the answer to offers that a broker has lost
-- transition: none: readiness is the fact, an offer only a hint, and of two offers of a step one leases it
-- fenced by: nothing
-- locks: ready rows (skipping locked ones: they are being leased or offered); the audit chain last
CREATE FUNCTION republish_task(p_tenant uuid, p_task uuid, p_actor text) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  IF NOT EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  UPDATE ready r SET offered_at = NULL WHERE r.step_id = ANY (ARRAY(SELECT y.step_id FROM ready y WHERE y.step_id = ANY (ARRAY(
    SELECT s.step_id FROM step s WHERE s.run_id = (SELECT t.run_id FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) AND s.state IN ('ready', 'unknown'))) FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_n = ROW_COUNT;
  PERFORM note_act(p_tenant, p_actor, 'task.republish', p_task::text, jsonb_build_object('steps', v_n));
  RETURN v_n;
END $$;
