-- purpose: insert the next branches of a fan-out, and with the first of them the joins that wait for all; in a retried run with what they take over
-- transition: births: step pending|ready (succeeded|skipped when it is adopted), barrier waiting; those of an arrival
-- fenced by: the fan-out's row lock and the due row's cursor, so that two planners never insert a branch twice
-- locks: the fan-out's step, then new rows, slots, barriers and held steps; its run last, so that it can't end unseen
CREATE FUNCTION expand(p_fan uuid, p_first int, p_items jsonb, p_template jsonb, p_steps jsonb, p_barriers jsonb, p_next int, p_total int) RETURNS text
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  f step;
  v_room int;
  v_arrivals arrival[];
  v_done uuid[] := '{}';
  v_after aftermath[] := '{}';
  v_ready uuid[];
  a record;
  v_counts int;
  v_old_run uuid;
BEGIN
  SELECT * INTO f FROM step x WHERE x.step_id = p_fan AND x.state = 'waiting' FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    DELETE FROM timer t WHERE t.target_id = p_fan AND t.kind = 'expand';
    RETURN 'gone';
  END IF;
  UPDATE timer t SET version = p_next, due_at = v_now WHERE t.target_id = p_fan AND t.kind = 'expand' AND t.version = p_first;
  IF NOT FOUND THEN RETURN 'taken'; END IF;
  SELECT r.retry_of INTO v_old_run FROM run r WHERE r.run_id = f.run_id AND r.state IN ('created', 'running');
  IF NOT FOUND THEN RETURN 'winding down'; END IF;
  v_arrivals := insert_barriers(p_barriers);
  IF p_first = 0 THEN
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, body)
    VALUES (f.tenant_id, f.run_id, f.step_id, 'FanExpanding', f.version, v_now, jsonb_build_object('children', p_total, 'template', p_template));
  END IF;
  IF p_steps IS NOT NULL THEN
    PERFORM insert_plan(p_steps, NULL);
    v_counts := (SELECT count(*) FROM jsonb_to_recordset(p_steps) AS x(counts boolean) WHERE x.counts);
    IF v_old_run IS NOT NULL THEN
      SELECT * INTO a FROM adopt_steps(p_steps);
      v_arrivals := v_arrivals || a.o_arrivals;
      v_done := a.o_done;
      v_after := a.o_after;
    END IF;
  ELSIF p_items IS NOT NULL AND v_old_run IS NOT NULL THEN
    SELECT * INTO a FROM adopt_children(f, p_first, p_items, p_template);
    v_arrivals := v_arrivals || a.o_arrivals;
    v_done := a.o_done;
  ELSIF p_items IS NOT NULL THEN
    v_room := CASE WHEN EXISTS (SELECT FROM ready r WHERE r.queue = p_template->>'queue' AND r.offered_at IS NULL) OR EXISTS (SELECT FROM queue_pause q WHERE q.queue = p_template->>'queue' AND q.tenant_id = f.tenant_id) THEN 0
      ELSE limits.OFFER_WINDOW - (SELECT count(*) FROM (SELECT FROM ready r WHERE r.queue = p_template->>'queue' AND r.offered_at <= v_now LIMIT limits.OFFER_WINDOW) x) END;
    PERFORM expand_children(f, p_first, p_items, p_template, v_room, steps_in_offer(f.workflow, f.workflow_version, p_template->>'node', p_total));
  END IF;
  IF p_next >= p_total THEN DELETE FROM timer t WHERE t.target_id = p_fan AND t.kind = 'expand'; END IF;
  SELECT x.o_ready, v_after || x.o_after INTO v_ready, v_after FROM arrive(v_arrivals, v_done) x;
  PERFORM make_ready(v_ready);
  IF p_total > 0 THEN PERFORM hold_run(f.run_id); END IF;
  IF v_counts > 0 THEN UPDATE run r SET open = r.open + v_counts WHERE r.run_id = f.run_id AND r.state IN ('created', 'running'); END IF;
  -- only now: what was just added to what is open keeps the run from ending with what was taken over
  PERFORM conclude(v_after);
  RETURN 'expanded';
END $$;
