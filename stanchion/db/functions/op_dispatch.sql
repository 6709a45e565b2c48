-- purpose: the last look before a request leaves, and its record: committed first, sent then
-- transition: operation prepared -> dispatched, or unknown; the approval that it needs granted -> spent, or expired
-- fenced by: the step's own fence; the run must still want it
-- locks: the step, the operation, its approval, the artifact that this is about (shared), the budget of what costs something, then the run (shared: a cancel comes before or after, never between)
CREATE FUNCTION op_dispatch(p_worker uuid, p_step uuid, p_fence bigint, p_operation uuid) RETURNS TABLE (outcome text, sends int, deadline timestamptz, why text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  s step;
  o operation;
  v_run text;
  v_task uuid;
  v_over jsonb;
  v_fault text;
  v_skew interval := '2 s';  -- how far the clock of the other side may be behind
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'op_dispatch');
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'stale', 0, NULL::timestamptz, NULL;
    RETURN;
  END IF;
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = s.tenant_id AND x.step_id = s.step_id FOR NO KEY UPDATE;
  IF o.state IS DISTINCT FROM 'prepared' THEN
    RETURN QUERY SELECT 'busy', 0, NULL::timestamptz, NULL;
    RETURN;
  END IF;
  -- the approval and the version that it is about stay as they are until this is committed
  PERFORM FROM approval a WHERE a.approval_id = o.approval_id AND a.tenant_id = o.tenant_id FOR NO KEY UPDATE;
  PERFORM FROM artifact f WHERE f.artifact_id = (SELECT v.artifact_id FROM approval a JOIN artifact_version v ON v.version_id = a.resource_id AND v.tenant_id = a.tenant_id WHERE a.approval_id = o.approval_id AND a.tenant_id = o.tenant_id) AND f.tenant_id = o.tenant_id FOR SHARE;
  IF o.cost IS NOT NULL THEN
    SELECT r.task_id INTO v_task FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
    PERFORM hold_budget(o.tenant_id, v_task);
  END IF;
  SELECT r.state INTO v_run FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id FOR SHARE;
  v_now := clock();
  IF v_run NOT IN ('created', 'running') AND s.kind <> 'undo' THEN
    -- once it was not found and was to be sent again under its key: what was sent before may still land
    IF may_still_land(o) THEN
      v_fault := 'doubt';
      PERFORM doubt_again(s, o, 'its run is being cancelled, and what was sent may still land');
    END IF;
    RETURN QUERY SELECT 'cancelled', 0, NULL::timestamptz, v_fault;
    RETURN;
  END IF;
  IF o.sends > 0 AND o.settled_by IS NULL AND coalesce(o.key_until < v_now, true) AND NOT coalesce(o.lands_until < v_now, false) THEN
    PERFORM doubt_again(s, o, 'the key it was sent with is no longer kept');
    RETURN QUERY SELECT 'key_over', o.sends::int, NULL::timestamptz, NULL;
    RETURN;
  END IF;
  IF o.cost IS NOT NULL THEN
    v_over := over_budget(o, v_task);
    IF v_over IS NOT NULL THEN
      PERFORM note_budget(o.tenant_id, o.run_id, o.step_id, 'BudgetRefused', p_fence, v_over || jsonb_build_object('operation', o.operation_id));
      RETURN QUERY SELECT 'over_budget', o.sends::int, NULL::timestamptz, budget_text(v_over->>'unit', (v_over->>'allowed')::numeric, (v_over->>'spent')::numeric, (v_over->>'asked')::numeric);
      RETURN;
    END IF;
  END IF;
  v_fault := use_approval(o);
  IF v_fault IS NOT NULL THEN
    RETURN QUERY SELECT 'unapproved', o.sends::int, NULL::timestamptz, v_fault;
    RETURN;
  END IF;
  IF o.cost IS NOT NULL THEN PERFORM charge(o, v_task, v_now); END IF;
  UPDATE operation x SET state = 'dispatched', version = x.version + 1, proof = s.fence, fence = s.fence, sends = x.sends + 1, dispatched_at = v_now, updated_at = v_now, error = NULL, settled_by = NULL,
    key_until = CASE WHEN x.sends = 0 THEN v_now + x.keeps_key_ms * interval '1 ms' ELSE x.key_until END, lands_until = v_now + x.lands_within_ms * interval '1 ms' + v_skew, unknown_since = NULL
  WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  UPDATE step x SET doubts = x.doubts + 1, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
  PERFORM note_operation(o, 'OperationDispatched', p_fence, NULL, jsonb_build_object('sends', o.sends));
  RETURN QUERY SELECT 'dispatched', o.sends::int, o.lands_until - v_skew, NULL;
END $$;
