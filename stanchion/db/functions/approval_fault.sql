-- purpose: why an operation may not go out under an approval; NULL when it may. The one place where what is bound is compared
-- transition: none
-- fenced by: nothing: whoever acts on the answer holds both rows
-- locks: none
CREATE FUNCTION approval_fault(a approval, o operation) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE
    WHEN a.tenant_id IS DISTINCT FROM o.tenant_id OR a.task_id IS DISTINCT FROM (SELECT r.task_id FROM run r WHERE r.run_id = o.run_id AND r.tenant_id = o.tenant_id)
      OR o.scope_id IS DISTINCT FROM o.tenant_id AND a.task_id IS DISTINCT FROM o.task_id THEN 'another task'
    WHEN a.operation_kind IS DISTINCT FROM o.kind THEN 'another kind of operation'
    WHEN a.operation_key IS NOT NULL AND a.operation_key <> o.key THEN 'another key'
    WHEN a.payload_hash IS DISTINCT FROM o.payload_hash THEN 'another payload'
    WHEN a.state = 'spent' AND a.spent_by IS DISTINCT FROM o.operation_id THEN 'spent'
    WHEN a.state NOT IN ('granted', 'spent') THEN a.state
    WHEN a.expires_at <= clock() THEN 'expired'
    WHEN votes_for(a) < a.needs THEN 'votes'
    WHEN a.resource_id IS NOT NULL AND NOT is_current(a.tenant_id, a.resource_id, a.resource_sha256) THEN 'another version'
  END
$$;
