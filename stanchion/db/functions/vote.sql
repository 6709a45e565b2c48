-- purpose: what a person says about an approval: approve, reject, ask back, answer such a question, or pass the vote on; the last vote that it needs decides it
-- transition: approval requested -> granted|rejected; step waiting -> succeeded
-- fenced by: the approval's state and time, the person's vote, and the hash of what was shown, all looked at under its lock
-- locks: the step, the approval, then slots, barriers, held steps, runs, tasks; the audit chain last
CREATE FUNCTION vote(p_tenant uuid, p_approval uuid, p_person uuid, p_vote text, p_hash bytea, p_comment text, p_delegate text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_fault text;
  v_subject text;
  v_said text;
  v_state text;
  a approval;
  d record;
BEGIN
  a := hold_approval(p_tenant, p_approval);
  SELECT 'person:' || p.name INTO v_subject FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant;
  SELECT v.vote INTO v_said FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant AND v.person_id = p_person AND v.vote IN ('approve', 'reject', 'delegate');
  IF v_said = p_vote AND p_hash = a.payload_hash AND (p_vote <> 'delegate' OR EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant AND v.person_id = p_person AND v.delegate_to = p_delegate)) THEN RETURN a.state; END IF;  -- asked again, since the answer got lost
  v_fault := speaker_fault(a, p_person, p_vote);
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'ST009', MESSAGE = 'E-APR-03 ' || CASE v_fault WHEN 'requester' THEN 'whoever asked for it may not decide it' WHEN 'delegated' THEN 'the vote was passed on'
      WHEN 'role' THEN 'only an approver or an admin decides' WHEN 'answer' THEN 'a viewer answers nothing' ELSE 'others were asked' END;
  END IF;
  IF a.state <> 'requested' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-APR-01 the approval is %s', a.state); END IF;
  IF a.expires_at <= clock() THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-02 the time to decide is over'; END IF;
  IF p_hash <> a.payload_hash THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-04 the approval covers something else than what was shown'; END IF;
  IF v_said IS NOT NULL AND p_vote NOT IN ('ask_back', 'answer') THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-APR-05 this person has said %s already', v_said); END IF;
  IF (SELECT count(*) FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant) >= limits.VOTES THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-05 there are limits.VOTES entries about it already';
  END IF;
  IF p_vote = 'delegate' AND NOT coalesce((SELECT coalesce(voter_fault(a, p.person_id), '') IN ('', 'not asked') AND p.person_id <> p_person
      AND NOT EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant AND v.person_id = p.person_id AND v.vote IN ('approve', 'reject', 'delegate'))
      FROM person p WHERE p.name = p_delegate AND p.tenant_id = p_tenant), false) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-06 the vote can''t be passed on to them: they may not decide it, or have said something already';
  END IF;
  INSERT INTO approval_vote (tenant_id, approval_id, number, person_id, subject, vote, payload_hash, comment, delegate_to)
  SELECT p_tenant, p_approval, count(*) + 1, p_person, v_subject, p_vote, p_hash, p_comment, p_delegate FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant;
  IF p_vote = 'delegate' AND (SELECT count(*) FROM (SELECT FROM person p WHERE p.tenant_id = p_tenant AND voter_fault(a, p.person_id) IS NULL LIMIT a.needs) x) < a.needs THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-06 the vote can''t be passed on to them: too few would be left to approve it';
  END IF;
  UPDATE approval x SET updated_at = clock() WHERE x.approval_id = p_approval AND x.tenant_id = p_tenant RETURNING * INTO a;
  PERFORM note_approval(a, 'ApprovalVoted', v_subject, jsonb_build_object('vote', p_vote, 'comment', p_comment, 'delegate_to', p_delegate));
  v_state := CASE WHEN p_vote = 'reject' THEN 'rejected' WHEN p_vote = 'approve' AND votes_for(a) >= a.needs THEN 'granted' ELSE a.state END;
  IF v_state <> a.state THEN
    SELECT * INTO d FROM end_approval(a, v_state, v_subject, p_comment);
    PERFORM spread(d.o_arrivals, d.o_settled, d.o_after);
  END IF;
  PERFORM note_act(p_tenant, v_subject, 'approval.' || p_vote, p_approval::text, jsonb_build_object('hash', encode(p_hash, 'hex'), 'comment', p_comment, 'delegate_to', p_delegate, 'state', v_state));
  RETURN v_state;
END $$;
