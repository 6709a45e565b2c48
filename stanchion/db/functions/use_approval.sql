-- purpose: the last look at the approval of an operation that is about to go out, the first time or once more; NULL when it may
-- transition: approval granted -> spent, or expired
-- fenced by: the caller holds the operation and the approval
-- locks: none beyond them
CREATE FUNCTION use_approval(o operation) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_fault text;
  a approval;
BEGIN
  IF o.approval_id IS NULL THEN RETURN CASE WHEN o.needs_approval THEN 'none' END; END IF;
  SELECT * INTO a FROM approval x WHERE x.approval_id = o.approval_id AND x.tenant_id = o.tenant_id;
  IF NOT FOUND THEN RETURN 'none'; END IF;
  v_fault := approval_fault(a, o);
  IF v_fault = 'expired' AND a.state = 'granted' THEN
    PERFORM end_approval(a, 'expired', NULL, 'it was not used in time');
  ELSIF v_fault IS NULL AND a.state = 'granted' THEN
    UPDATE approval x SET state = 'spent', version = x.version + 1, updated_at = v_now, spent_at = v_now, spent_by = o.operation_id
    WHERE x.approval_id = a.approval_id AND x.tenant_id = a.tenant_id RETURNING * INTO a;
    PERFORM note_approval(a, 'ApprovalSpent', NULL, jsonb_build_object('operation', o.operation_id));
  END IF;
  IF v_fault IS NOT NULL THEN
    SELECT * INTO a FROM approval x WHERE x.approval_id = o.approval_id AND x.tenant_id = o.tenant_id;
    PERFORM note_approval(a, 'ApprovalRefused', NULL, jsonb_build_object('operation', o.operation_id, 'why', v_fault));
  END IF;
  RETURN v_fault;
END $$;
