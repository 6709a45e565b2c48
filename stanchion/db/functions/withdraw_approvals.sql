-- purpose: steps were cancelled that people were asked for: nobody waits for the answer any more
-- transition: approval requested -> revoked
-- fenced by: the caller holds the steps
-- locks: approvals by id
CREATE FUNCTION withdraw_approvals(p_steps uuid[], p_reason jsonb) RETURNS aftermath[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  a approval;
  v_after aftermath[] := '{}';
BEGIN
  FOR a IN SELECT x.* FROM approval x WHERE x.step_id = ANY (p_steps) AND x.state = 'requested' ORDER BY x.approval_id FOR NO KEY UPDATE LOOP
    v_now := clock();
    UPDATE approval x SET state = 'revoked', version = x.version + 1, updated_at = v_now, decided_at = v_now, decided_by = 'canceller', reason = left(p_reason->>'what', limits.REASON_CHARACTERS)
    WHERE x.approval_id = a.approval_id AND x.tenant_id = a.tenant_id RETURNING * INTO a;
    PERFORM note_approval(a, 'ApprovalRevoked', 'canceller', jsonb_build_object('reason', a.reason));
    PERFORM notify_approval(a, 'approval.decided');
    v_after := v_after || approval_news(a, 'ApprovalDecided');
  END LOOP;
  RETURN v_after;
END $$;
