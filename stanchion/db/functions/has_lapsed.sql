-- purpose: whether a step's result is a decision that allows nothing any more: a new run asks again instead of taking it over
-- transition: none
-- fenced by: nothing: what the new run sends is looked at again
-- locks: none
CREATE FUNCTION has_lapsed(p_tenant uuid, p_step uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM result x JOIN step s ON s.step_id = x.step_id AND s.tenant_id = x.tenant_id JOIN run r ON r.run_id = s.run_id AND r.tenant_id = s.tenant_id
      JOIN approval a ON a.task_id = r.task_id AND a.tenant_id = r.tenant_id AND a.approval_id::text = x.body->>'approval_id'
      LEFT JOIN operation o ON o.operation_id = a.spent_by AND o.tenant_id = a.tenant_id
    WHERE x.step_id = p_step AND x.tenant_id = p_tenant AND x.body ? 'approval_id'
      AND NOT coalesce(CASE a.state WHEN 'granted' THEN a.expires_at > clock() AND votes_for(a) >= a.needs WHEN 'spent' THEN a.expires_at > clock() OR o.state NOT IN ('prepared', 'not_done') END, false))
$$;
