-- purpose: keep others from spending of a task's budget until this is committed
-- transition: none
-- fenced by: nothing
-- locks: the rows of the budget by unit: after steps, operations and approvals, before runs
CREATE FUNCTION hold_budget(p_tenant uuid, p_task uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM FROM budget b WHERE b.task_id = p_task AND b.tenant_id = p_tenant ORDER BY b.unit FOR NO KEY UPDATE;
END $$;
