-- purpose: decide on an effect: its row is durable before anything leaves; whoever asks for the same again gets what is there
-- transition: operation -> prepared (born), not_done -> prepared
-- fenced by: the step's own fence
-- locks: the step, then the operation
CREATE FUNCTION op_prepare(p_worker uuid, p_step uuid, p_fence bigint, p_operation uuid, p_scope text, p_kind text, p_key text, p_payload jsonb, p_blob bytea, p_hash bytea,
  p_request_key text, p_reach text, p_can_query boolean, p_keeps_key_ms bigint, p_lands_within_ms bigint, p_undo_kind text, p_compensates uuid, p_needs_approval boolean, p_approval uuid, p_cost jsonb)
RETURNS TABLE (outcome text, operation_id uuid, request_key text, state text, receipt jsonb, error jsonb, hash bytea) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  s step;
  o operation;
  v_task uuid;
  v_scope uuid;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'op_prepare');
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'stale', NULL::uuid, NULL, NULL, NULL::jsonb, NULL::jsonb, NULL::bytea;
    RETURN;
  END IF;
  v_now := clock();
  SELECT r.task_id INTO v_task FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
  v_scope := CASE p_scope WHEN 'tenant' THEN s.tenant_id ELSE v_task END;
  INSERT INTO operation (tenant_id, operation_id, task_id, run_id, step_id, fence, scope_id, kind, key, state, payload, payload_blob, payload_hash, request_key, reach, can_query, keeps_key_ms, lands_within_ms, undo_kind, compensates, needs_approval, approval_id, cost, created_at, updated_at)
  VALUES (s.tenant_id, p_operation, v_task, s.run_id, s.step_id, s.fence, v_scope, p_kind, p_key, 'prepared', p_payload, p_blob, p_hash, p_request_key, p_reach, p_can_query, p_keeps_key_ms, p_lands_within_ms, p_undo_kind, p_compensates, p_needs_approval, p_approval, p_cost, v_now, v_now)
  ON CONFLICT (scope_id, kind, key, tenant_id) DO NOTHING RETURNING * INTO o;
  IF FOUND THEN
    PERFORM note_operation(o, 'OperationPrepared', p_fence, NULL, jsonb_build_object('kind', o.kind, 'key', o.key, 'hash', encode(o.payload_hash, 'hex'), 'compensates', o.compensates, 'approval', o.approval_id));
    RETURN QUERY SELECT 'prepared', o.operation_id, o.request_key, o.state, NULL::jsonb, NULL::jsonb, o.payload_hash;
    RETURN;
  END IF;
  SELECT x.* INTO o FROM operation x WHERE x.scope_id = v_scope AND x.kind = p_kind AND x.key = p_key AND x.tenant_id = s.tenant_id FOR NO KEY UPDATE;
  IF o.payload_hash <> p_hash THEN
    RETURN QUERY SELECT 'conflict', o.operation_id, o.request_key, o.state, NULL::jsonb, NULL::jsonb, o.payload_hash;
    RETURN;
  END IF;
  IF o.state IN ('prepared', 'not_done') AND (o.step_id, o.fence, o.approval_id, o.cost) IS DISTINCT FROM (s.step_id, s.fence, p_approval, p_cost) THEN
    -- whoever holds the step that asks for it now answers for it, unless another one does at this moment
    IF o.step_id <> s.step_id AND EXISTS (SELECT FROM step x WHERE x.step_id = o.step_id AND x.tenant_id = o.tenant_id AND x.fence = o.fence AND x.state IN ('leased', 'running')) THEN
      RETURN QUERY SELECT 'busy', o.operation_id, o.request_key, o.state, NULL::jsonb, NULL::jsonb, o.payload_hash;
      RETURN;
    END IF;
    UPDATE operation x SET run_id = s.run_id, step_id = s.step_id, fence = s.fence, updated_at = v_now,
      -- what it was charged with while it may have been done is what it costs
      approval_id = p_approval, cost = CASE WHEN x.cost IS NOT NULL AND is_charged(x) THEN x.cost ELSE p_cost END, state = 'prepared', version = x.version + (x.state = 'not_done')::int, proof = s.fence
    WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
    PERFORM note_operation(o, 'OperationPrepared', p_fence, NULL, jsonb_build_object('taken_over', true, 'approval', o.approval_id));
  END IF;
  RETURN QUERY SELECT CASE WHEN o.state = 'prepared' THEN 'prepared' WHEN o.state IN ('dispatched', 'unknown') THEN 'busy' ELSE 'settled' END,
    o.operation_id, o.request_key, o.state, o.receipt, o.error, o.payload_hash;
END $$;
