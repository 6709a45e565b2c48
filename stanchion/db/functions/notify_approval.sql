-- purpose: tell webhooks of an approval: whom it concerns and how it stands, not what is asked
-- transition: births: webhook deliveries
-- fenced by: the caller
-- locks: only new rows
CREATE FUNCTION notify_approval(a approval, p_event text) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT notify_webhooks(a.tenant_id, p_event, a.approval_id::text, jsonb_strip_nulls(jsonb_build_object('approval_id', a.approval_id, 'task_id', a.task_id, 'run_id', a.run_id, 'step_id', a.step_id, 'node', a.node,
    'state', a.state, 'operation', a.operation_kind, 'people', a.people, 'teams', a.teams, 'needs', a.needs, 'expires_at', a.expires_at, 'decided_by', a.decided_by)))
$$;
