-- purpose: the event of a new question, with all that it binds, and its webhooks
-- transition: none
-- fenced by: the caller
-- locks: only new rows
CREATE FUNCTION note_request(a approval) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT note_approval(a, 'ApprovalRequested', a.edited_by, jsonb_build_object('hash', encode(a.payload_hash, 'hex'), 'operation', a.operation_kind, 'key', a.operation_key, 'resource', a.resource_id,
    'people', a.people, 'teams', a.teams, 'needs', a.needs, 'four_eyes', a.four_eyes, 'expires_at', a.expires_at, 'replaces', a.replaces)),
    notify_approval(a, 'approval.requested')
$$;
