-- purpose: one of those asked changes what is asked about: the old question ends, the new one is decided by itself, by the same people, in the time that is left
-- transition: approval requested -> replaced; approval -> requested (born)
-- fenced by: the approval's state and time, the person's vote, and the hash of what was shown, all looked at under its lock
-- locks: the step, the approval, then the run and the task; the audit chain last
CREATE FUNCTION edit_approval(p_tenant uuid, p_approval uuid, p_person uuid, p_shown bytea, p_new uuid, p_payload jsonb, p_hash bytea, p_comment text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_subject text := (SELECT 'person:' || p.name FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant);
  a approval;
  v approval;
BEGIN
  a := hold_approval(p_tenant, p_approval);
  v_now := clock();
  SELECT * INTO v FROM approval x WHERE x.replaces = p_approval AND x.tenant_id = p_tenant AND x.run_id = a.run_id AND x.edited_by = v_subject AND x.payload_hash = p_hash;
  IF FOUND THEN RETURN v.approval_id; END IF;  -- asked again, since the answer got lost
  IF voter_fault(a, p_person) IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST009', MESSAGE = 'E-APR-03 only those who may decide it may change what is asked'; END IF;
  IF a.state <> 'requested' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-APR-01 the approval is %s', a.state); END IF;
  IF a.expires_at <= v_now THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-02 the time to decide is over'; END IF;
  IF p_shown <> a.payload_hash THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-04 the approval covers something else than what was shown'; END IF;
  IF p_hash = a.payload_hash THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-10 nothing of the payload is changed'; END IF;
  IF (SELECT count(*) FROM approval x WHERE x.step_id = a.step_id AND x.fence = a.fence AND x.tenant_id = p_tenant) > limits.EDITS THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-10 it was changed limits.EDITS times already';
  END IF;
  UPDATE approval x SET state = 'replaced', version = x.version + 1, updated_at = v_now, decided_at = v_now, decided_by = v_subject, reason = p_comment
  WHERE x.approval_id = p_approval AND x.tenant_id = p_tenant RETURNING * INTO a;
  INSERT INTO approval (tenant_id, approval_id, task_id, run_id, step_id, fence, node, state, question, summary, payload, payload_hash, operation_kind, operation_key, resource_id, resource_sha256,
    people, teams, needs, four_eyes, on_timeout, on_rejected, requested_by, replaces, edited_by, created_at, updated_at, expires_at)
  VALUES (a.tenant_id, p_new, a.task_id, a.run_id, a.step_id, a.fence, a.node, 'requested', a.question, a.summary, p_payload, p_hash, a.operation_kind, a.operation_key, a.resource_id, a.resource_sha256,
    a.people, a.teams, a.needs, a.four_eyes, a.on_timeout, a.on_rejected, a.requested_by, a.approval_id, v_subject, v_now, v_now, a.expires_at) RETURNING * INTO v;
  IF (SELECT count(*) FROM (SELECT FROM person p WHERE p.tenant_id = p_tenant AND voter_fault(v, p.person_id) IS NULL LIMIT v.needs) x) < v.needs THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-10 nobody would be left to approve it: whoever changes it has no vote on it';
  END IF;
  PERFORM note_approval(a, 'ApprovalReplaced', v_subject, jsonb_build_object('by', v.approval_id, 'reason', p_comment));
  PERFORM notify_approval(a, 'approval.decided');
  PERFORM note_request(v);
  PERFORM conclude(ARRAY[approval_news(a, 'ApprovalDecided'), approval_news(v, 'ApprovalRequested')]);
  PERFORM note_act(p_tenant, v_subject, 'approval.edit', p_approval::text, jsonb_build_object('hash', encode(p_hash, 'hex'), 'was', encode(p_shown, 'hex'), 'comment', p_comment, 'replaced_by', v.approval_id));
  RETURN v.approval_id;
END $$;
