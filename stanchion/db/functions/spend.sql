-- purpose: book what an attempt says it used, once for each report; a task that spent more than it may ends as at its deadline
-- transition: run created|running -> cancelling, with outcome failed
-- fenced by: the step's own fence
-- locks: the step, the budget, then the run
CREATE FUNCTION spend(p_worker uuid, p_step uuid, p_fence bigint, p_spending uuid, p_unit text, p_amount numeric) RETURNS TABLE (outcome text, allowed numeric, spent numeric) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_task uuid;
  s step;
  b budget;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'spend');
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'stale', NULL::numeric, NULL::numeric;
    RETURN;
  END IF;
  SELECT r.task_id INTO v_task FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
  PERFORM hold_budget(s.tenant_id, v_task);
  -- the answer to an earlier call may have got lost: its booking stands
  IF p_amount > 0 AND NOT EXISTS (SELECT FROM spending x WHERE x.spending_id = p_spending AND x.unit = p_unit AND x.tenant_id = s.tenant_id) THEN
    IF NOT EXISTS (SELECT FROM budget x WHERE x.task_id = v_task AND x.unit = p_unit AND x.tenant_id = s.tenant_id)
       AND (SELECT count(*) FROM budget x WHERE x.task_id = v_task AND x.tenant_id = s.tenant_id) >= limits.BUDGET_UNITS THEN
      RETURN QUERY SELECT 'units', NULL::numeric, NULL::numeric;
      RETURN;
    END IF;
    INSERT INTO spending (tenant_id, spending_id, task_id, run_id, step_id, fence, unit, amount) VALUES (s.tenant_id, p_spending, v_task, s.run_id, s.step_id, s.fence, p_unit, trim_scale(p_amount));
    PERFORM note_budget(s.tenant_id, s.run_id, s.step_id, 'BudgetSpent', s.fence, jsonb_build_object('unit', p_unit, 'amount', trim_scale(p_amount)));
  END IF;
  SELECT x.* INTO b FROM budget x WHERE x.task_id = v_task AND x.unit = p_unit AND x.tenant_id = s.tenant_id;
  IF b.spent > b.allowed THEN
    PERFORM wind_down(s.run_id, 'failed', jsonb_build_object('code', 'E-BUD-02', 'what', format('the task spent more than its budget: %s', budget_text(b.unit, b.allowed, b.spent))), 'engine');
  END IF;
  RETURN QUERY SELECT CASE WHEN b.spent > b.allowed THEN 'over' ELSE 'spent' END, b.allowed, b.spent;
END $$;
