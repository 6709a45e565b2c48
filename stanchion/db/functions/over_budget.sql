-- purpose: what of an operation's cost its task's budget does not cover, the first such unit; NULL when it may go out. What was charged before costs nothing anew, and what undoes is never held back
-- transition: none
-- fenced by: the caller holds the budget
-- locks: none
CREATE FUNCTION over_budget(o operation, p_task uuid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT jsonb_build_object('unit', b.unit, 'allowed', b.allowed, 'spent', b.spent, 'asked', trim_scale(c.value::numeric))
  FROM jsonb_each_text(o.cost) c JOIN budget b ON b.task_id = p_task AND b.tenant_id = o.tenant_id AND b.unit = c.key
  WHERE o.compensates IS NULL AND b.spent + c.value::numeric > b.allowed AND NOT is_charged(o) ORDER BY b.unit LIMIT 1
$$;
