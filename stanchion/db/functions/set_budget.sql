-- purpose: the limits of a task's budget, for the units that are named
-- transition: none
-- fenced by: the task's run not having begun
-- locks: the rows of the budget by unit
CREATE FUNCTION set_budget(p_tenant uuid, p_task uuid, p_budget jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO budget (tenant_id, task_id, unit, allowed) SELECT p_tenant, p_task, b.key, b.value::numeric FROM jsonb_each_text(p_budget) b ORDER BY b.key
  ON CONFLICT (task_id, unit, tenant_id) DO UPDATE SET allowed = EXCLUDED.allowed;
  IF (SELECT count(*) FROM budget b WHERE b.task_id = p_task AND b.tenant_id = p_tenant) > limits.BUDGET_UNITS THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-BUD-03 a budget has at most limits.BUDGET_UNITS units';
  END IF;
END $$;
