-- purpose: cancel a task for whoever asked on Kafka, and answer in the same transaction; the same message again changes nothing and gets the same answer, another one gets the answer of its time
-- transition: those of cancel_task
-- fenced by: the unique key of inbox (message, consumer, tenant): a message is applied once, also when the task has a new run by then
-- locks: the inbox's row, then the run, then the task; the audit chain last
CREATE FUNCTION cancel_by_message(p_tenant uuid, p_task uuid, p_message text, p_reason text, p_actor text, p_reply jsonb, p_missing jsonb, p_too_late jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_state text := 'missing';
  v_answer jsonb;
BEGIN
  -- a consumer of its own: an id that a submission used as well stands for another command there
  INSERT INTO inbox (tenant_id, message_id, consumer, subject, at) VALUES (p_tenant, p_message, 'task-service.cancel', p_task, clock()) ON CONFLICT DO NOTHING;
  IF FOUND THEN
    IF EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) THEN
      v_state := cancel_task(p_tenant, p_task, p_reason, p_actor);
    END IF;
    v_answer := jsonb_build_object('state', v_state, 'type', CASE WHEN v_state IN ('cancelling', 'cancelled') THEN 'TaskCancelling' ELSE 'TaskRejected' END,
      'body', (CASE WHEN v_state IN ('cancelling', 'cancelled') THEN jsonb_build_object('task_id', p_task, 'state', v_state) WHEN v_state = 'missing' THEN p_missing ELSE p_too_late END)::text);
    UPDATE inbox i SET answer = v_answer WHERE i.message_id = p_message AND i.consumer = 'task-service.cancel' AND i.tenant_id = p_tenant;
  ELSE
    SELECT i.answer INTO v_answer FROM inbox i WHERE i.message_id = p_message AND i.consumer = 'task-service.cancel' AND i.tenant_id = p_tenant;
  END IF;
  PERFORM post(jsonb_build_array(p_reply || (v_answer - 'state')));
  RETURN v_answer->>'state';
END $$;
