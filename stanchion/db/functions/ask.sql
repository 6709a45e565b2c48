-- purpose: an attempt asks people: what it shows them is bound, its lease ends, and its step waits without a worker
-- transition: step leased|running -> waiting; attempt -> succeeded; approval -> requested (born); task running -> awaiting_approval
-- fenced by: the step's own fence
-- locks: the step, then its run and the task
CREATE FUNCTION ask(p_worker uuid, p_step uuid, p_fence bigint, p_approval uuid, p_ask jsonb, p_payload jsonb, p_hash bytea) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_fresh boolean;
  v_version uuid := (p_ask->>'resource')::uuid;
  v_sha256 bytea;
  v_by text;
  s step;
  a approval;
BEGIN
  SELECT x.state = 'leased' INTO v_fresh FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  v_now := clock();
  UPDATE step x SET state = 'waiting', version = x.version + 1, attempts = x.attempts + 1, proof = p_fence, updated_at = v_now
  WHERE x.step_id = p_step AND x.state IN ('leased', 'running') AND x.doubts = 0 AND x.fence = p_fence RETURNING * INTO s;
  IF NOT FOUND THEN
    RETURN refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], '{}', 'ask', 'succeeded') <> '{}';
  END IF;
  DELETE FROM timer t WHERE t.target_id = p_step AND (s.start_within_ms IS NOT NULL OR s.expires_at IS NOT NULL);
  UPDATE attempt t SET state = 'succeeded', ended_at = v_now, counted = true, started_at = coalesce(t.started_at, t.granted_at) WHERE t.step_id = p_step AND t.fence = p_fence;
  SELECT t.submitted_by INTO v_by FROM run r JOIN task t ON t.task_id = r.task_id AND t.tenant_id = r.tenant_id WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
  IF v_version IS NOT NULL THEN
    SELECT v.sha256 INTO v_sha256 FROM artifact_version v JOIN run r ON r.run_id = s.run_id AND r.tenant_id = s.tenant_id
    WHERE v.version_id = v_version AND v.tenant_id = s.tenant_id AND v.task_id = r.task_id AND v.state = 'available';
    IF v_sha256 IS NULL OR NOT is_current(s.tenant_id, v_version, v_sha256) THEN
      RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-07 the version that people are asked about is not the latest of its name in this task';
    END IF;
  END IF;
  INSERT INTO approval (tenant_id, approval_id, task_id, run_id, step_id, fence, node, state, question, summary, payload, payload_hash, operation_kind, operation_key, resource_id, resource_sha256,
    people, teams, needs, four_eyes, on_timeout, on_rejected, requested_by, created_at, updated_at, expires_at)
  SELECT s.tenant_id, p_approval, r.task_id, s.run_id, s.step_id, s.fence, s.node, 'requested', p_ask->>'question', p_ask->>'summary', p_payload, p_hash, p_ask->>'operation', p_ask->>'key', v_version, v_sha256,
    ARRAY(SELECT jsonb_array_elements_text(p_ask->'people')), ARRAY(SELECT jsonb_array_elements_text(p_ask->'teams')), (p_ask->>'needs')::smallint, (p_ask->>'four_eyes')::boolean, p_ask->>'on_timeout', coalesce(p_ask->>'on_rejected', CASE WHEN s.fan_id IS NULL THEN 'end' ELSE 'continue' END), v_by,
    v_now, v_now, v_now + (p_ask->>'within_ms')::bigint * interval '1 ms'
  FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id RETURNING * INTO a;
  INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id) VALUES (s.tenant_id, 'approval', a.expires_at, s.run_id, s.step_id);
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
  SELECT s.tenant_id, s.run_id, s.step_id, k.kind, s.version, s.fence, v_now, CASE k.kind WHEN 'StepAsked' THEN jsonb_build_object('approval', a.approval_id) END
  FROM (VALUES ('StepStarted'), ('StepAsked')) k(kind) WHERE v_fresh OR k.kind = 'StepAsked';
  PERFORM note_request(a);
  PERFORM conclude(ARRAY[approval_news(a, 'ApprovalRequested')]);
  RETURN true;
END $$;
