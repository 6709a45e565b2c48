-- purpose: take an approval back: before it is decided, before it is used, or before what it was used for is sent once more
-- transition: approval requested|granted|spent -> revoked; step waiting -> succeeded
-- fenced by: the approval's state under its lock, which a dispatch takes too: one of the two comes first
-- locks: the step, the approval, then slots, barriers, held steps, runs, tasks; the audit chain last
CREATE FUNCTION revoke_approval(p_tenant uuid, p_approval uuid, p_reason text, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  a approval;
  d record;
BEGIN
  a := hold_approval(p_tenant, p_approval);
  IF a.state = 'revoked' THEN RETURN a.state; END IF;  -- asked again, since the answer got lost
  IF a.state NOT IN ('requested', 'granted', 'spent') THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-APR-01 the approval is %s', a.state); END IF;
  IF a.state = 'spent' AND (SELECT o.state NOT IN ('prepared', 'dispatched', 'unknown') FROM operation o WHERE o.operation_id = a.spent_by AND o.tenant_id = p_tenant) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-01 what it allowed has happened';
  END IF;
  SELECT * INTO d FROM end_approval(a, 'revoked', p_actor, p_reason);
  PERFORM spread(d.o_arrivals, d.o_settled, d.o_after);
  PERFORM note_act(p_tenant, p_actor, 'approval.revoke', p_approval::text, jsonb_build_object('reason', p_reason, 'was', a.state));
  RETURN 'revoked';
END $$;
