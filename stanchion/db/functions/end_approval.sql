-- purpose: an approval is decided, or its time is over: its row, its event, its webhooks, and the answer for the step that waits
-- transition: approval requested|granted|spent -> the given state; step waiting -> succeeded|failed; a no may end the run
-- fenced by: the caller holds the step and the approval
-- locks: those of answer_step
CREATE FUNCTION end_approval(a approval, p_state text, p_actor text, p_reason text, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v approval;
  v_ends boolean;
BEGIN
  UPDATE approval x SET state = p_state, version = x.version + 1, updated_at = v_now, decided_at = v_now, decided_by = p_actor, reason = p_reason
  WHERE x.approval_id = a.approval_id AND x.tenant_id = a.tenant_id RETURNING * INTO v;
  PERFORM note_approval(v, 'Approval' || initcap(p_state), p_actor, jsonb_build_object('reason', p_reason));
  PERFORM notify_approval(v, 'approval.decided');
  SELECT x.o_arrivals, x.o_after, x.o_settled INTO o_arrivals, o_after, o_settled FROM answer_step(v) x;
  v_ends := v.on_rejected = 'end' AND p_state <> 'granted' AND o_settled <> '{}' AND NOT (p_state = 'expired' AND v.on_timeout = 'fail');
  -- before what follows from it, so that a task runs again before it ends
  o_after := approval_news(v, 'ApprovalDecided', CASE WHEN v_ends THEN jsonb_build_object('code', 'E-APR-09', 'what', format('%s was not approved', a.node), 'approval', a.approval_id, 'outcome', p_state, 'by', p_actor, 'why', p_reason) END) || o_after;
END $$;
