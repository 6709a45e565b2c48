-- purpose: keep the budgets that an operation was charged to as they are until this is committed
-- transition: none
-- fenced by: the caller holds the operation
-- locks: the rows of the budgets by task and unit: before runs
CREATE FUNCTION hold_costs(o operation) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM hold_budget(o.tenant_id, x.task_id) FROM (SELECT DISTINCT y.task_id FROM spending y WHERE y.operation_id = o.operation_id AND y.tenant_id = o.tenant_id ORDER BY y.task_id) x;
END $$;
