-- purpose: an operation was certainly not done: what was booked for it goes back to the budgets that it came from
-- transition: none
-- fenced by: the caller holds the operation, and moved it to a state that says so
-- locks: the budgets by task and unit
CREATE FUNCTION give_cost_back(o operation, p_fence bigint) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  x record;
BEGIN
  IF o.cost IS NULL THEN RETURN; END IF;
  FOR x IN SELECT y.task_id, y.unit, sum(y.amount) AS amount FROM spending y WHERE y.operation_id = o.operation_id AND y.tenant_id = o.tenant_id GROUP BY y.task_id, y.unit HAVING sum(y.amount) > 0 ORDER BY y.task_id, y.unit LOOP
    INSERT INTO spending (tenant_id, spending_id, task_id, run_id, step_id, fence, operation_id, unit, amount)
    VALUES (o.tenant_id, uuidv7(), x.task_id, o.run_id, o.step_id, p_fence, o.operation_id, x.unit, -x.amount);
    PERFORM note_budget(o.tenant_id, o.run_id, o.step_id, 'BudgetReturned', p_fence, jsonb_build_object('unit', x.unit, 'amount', x.amount, 'operation', o.operation_id));
  END LOOP;
END $$;
