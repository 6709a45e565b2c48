-- purpose: cancel a task for whoever asked on Kafka, and answer in the same transaction; asking again gets the same answer
-- transition: those of cancel_task
-- fenced by: nothing
-- locks: the run, then the task
CREATE FUNCTION cancel_by_message(p_tenant uuid, p_task uuid, p_reason text, p_actor text, p_reply jsonb, p_missing jsonb, p_too_late jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_state text := 'missing';
BEGIN
  IF EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) THEN
    v_state := cancel_task(p_tenant, p_task, p_reason, p_actor);
  END IF;
  PERFORM post(jsonb_build_array(p_reply || jsonb_build_object(
    'type', CASE WHEN v_state IN ('cancelling', 'cancelled') THEN 'TaskCancelling' ELSE 'TaskRejected' END,
    'body', (CASE WHEN v_state IN ('cancelling', 'cancelled') THEN jsonb_build_object('task_id', p_task, 'state', v_state) WHEN v_state = 'missing' THEN p_missing ELSE p_too_late END)::text)));
  RETURN v_state;
END $$;
