-- purpose: accept a result that steers: go to chosen steps, go round again, or replace the step by a fan-out and its join
-- transition: step leased|running -> succeeded; chosen steps pending -> ready, others -> skipped; births of the new plan
-- fenced by: the step's own fence
-- locks: the step, then either its run (a plan of new steps arrives nowhere), or slots, barriers, held steps, its run, its task
CREATE FUNCTION complete_with_plan(p_worker uuid, p_step uuid, p_fence bigint, p_body jsonb, p_blob bytea, p_plan jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  s step;
  v_fresh boolean;
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
  v_late boolean;
  d record;
  v_stand_in uuid := (p_plan->>'stand_in')::uuid;
  v_new_counts int;
BEGIN
  SELECT x.state = 'leased' INTO v_fresh FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  v_now := clock();
  UPDATE step x SET state = 'succeeded', version = x.version + 1, attempts = x.attempts + 1, proof = p_fence, updated_at = v_now, replaced_by = v_stand_in
  WHERE x.step_id = p_step AND x.state IN ('leased', 'running') AND x.doubts = 0 AND x.fence = p_fence RETURNING * INTO s;
  IF NOT FOUND THEN
    RETURN refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], '{}', 'complete', 'succeeded') <> '{}';
  END IF;
  DELETE FROM timer t WHERE t.target_id = p_step AND (s.start_within_ms IS NOT NULL OR s.expires_at IS NOT NULL);
  UPDATE attempt t SET state = 'succeeded', ended_at = v_now, counted = true, started_at = coalesce(t.started_at, t.granted_at) WHERE t.step_id = p_step AND t.fence = p_fence RETURNING t.lease_until < v_now INTO v_late;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
  SELECT s.tenant_id, s.run_id, s.step_id, k.kind, s.version, s.fence, v_now, CASE k.kind WHEN 'StepSucceeded' THEN jsonb_strip_nulls(jsonb_build_object('outcome', p_plan->>'outcome', 'stand_in', v_stand_in, 'late', nullif(v_late, false))) END
  FROM (VALUES ('StepStarted'), ('StepSucceeded')) k(kind) WHERE v_fresh OR k.kind = 'StepSucceeded';
  IF v_stand_in IS NULL THEN
    INSERT INTO result (tenant_id, step_id, fence, body, blob) VALUES (s.tenant_id, s.step_id, s.fence, p_body, p_blob);
    v_arrivals := arrivals_of(s, 'ok');
  ELSE
    -- another step answers in its place: whoever waited for this one reads that one's result instead
    UPDATE step x SET sources = array_replace(x.sources, s.step_id, v_stand_in)
    WHERE x.step_id = ANY (ARRAY(SELECT b.step_id FROM barrier b WHERE b.barrier_id = ANY (s.feeds) AND b.kind = 'after')) AND x.state = 'pending';
  END IF;
  IF p_plan ? 'steps' THEN
    v_new_counts := (SELECT count(*) FROM jsonb_to_recordset(p_plan->'steps') AS x(step_id uuid, counts boolean) WHERE CASE WHEN x.step_id = v_stand_in THEN s.counts ELSE x.counts END);
    PERFORM FROM run r WHERE r.run_id = s.run_id AND r.state IN ('created', 'running') FOR NO KEY UPDATE;
    IF FOUND THEN
      UPDATE run r SET open = r.open + v_new_counts WHERE r.run_id = s.run_id AND v_new_counts > 0;
      -- the stand-in answers for this step: it feeds what this one fed, counts as this one counted, chooses where this one could, and is joined as this one is
      PERFORM insert_plan((SELECT jsonb_agg(CASE WHEN (x->>'step_id')::uuid = v_stand_in THEN x || jsonb_build_object('feeds', s.feeds, 'counts', s.counts, 'answers', coalesce(s.answers, s.node), 'chooses', s.chooses, 'uncollected', s.uncollected) ELSE x END)
        FROM jsonb_array_elements(p_plan->'steps') x), p_plan->'barriers', (SELECT t.priority FROM run r, task t WHERE r.run_id = s.run_id AND t.task_id = r.task_id AND t.tenant_id = r.tenant_id));
      IF p_plan ? 'expand' THEN PERFORM open_fan((p_plan->>'expand')::uuid); END IF;
    END IF;
  END IF;
  IF s.counts THEN v_after := ARRAY[ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath]; END IF;
  IF v_stand_in IS NULL AND s.chooses IS NOT NULL THEN
    SELECT * INTO d FROM choose(s, p_plan->'chosen');
    v_arrivals := v_arrivals || d.o_arrivals;
    v_after := v_after || d.o_after;
  END IF;
  PERFORM spread(v_arrivals, ARRAY[p_step], v_after);
  RETURN true;
END $$;
