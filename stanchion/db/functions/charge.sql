-- purpose: book what an operation costs before it goes out; what is booked already is not booked twice
-- transition: none
-- fenced by: the caller holds the operation and the budget, and presents the step's fence
-- locks: none beyond them
CREATE FUNCTION charge(o operation, p_task uuid, p_at timestamptz) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  x record;
BEGIN
  IF is_charged(o) THEN RETURN; END IF;
  FOR x IN SELECT c.key AS unit, trim_scale(c.value::numeric) AS amount FROM jsonb_each_text(o.cost) c ORDER BY c.key LOOP
    INSERT INTO spending (tenant_id, spending_id, task_id, run_id, step_id, fence, operation_id, unit, amount, at)
    VALUES (o.tenant_id, uuidv7(), p_task, o.run_id, o.step_id, o.fence, o.operation_id, x.unit, x.amount, p_at);
    PERFORM note_budget(o.tenant_id, o.run_id, o.step_id, 'BudgetSpent', o.fence, jsonb_build_object('unit', x.unit, 'amount', x.amount, 'operation', o.operation_id));
  END LOOP;
END $$;
