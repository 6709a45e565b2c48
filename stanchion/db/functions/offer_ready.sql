-- purpose: offer what waits behind a full window, by priority, then age; offer again what nobody leased, and put aside what nobody can lease
-- transition: none: readiness is the fact, an offer only a hint
-- fenced by: nothing
-- locks: the advisory lock on putting aside, shared with other offers; then ready rows (skipping locked ones): it never waits for a row
CREATE FUNCTION offer_ready(p_batch int, p_again_ms int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  q text;
  v_room int;
  v_ids uuid[];
  v_again uuid[];
  v_parked uuid[];
BEGIN
  -- whoever makes work leasable (a resume of a run or a queue, a new worker) waits for what is put aside here from an older snapshot, and brings it back; or this waits for them, and sees what they did
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('put aside', 0));
  FOR q IN
    WITH RECURSIVE w(queue) AS (
      (SELECT r.queue FROM ready r WHERE r.offered_at IS NULL ORDER BY r.queue LIMIT 1)
      UNION ALL
      SELECT (SELECT r.queue FROM ready r WHERE r.offered_at IS NULL AND r.queue > w.queue ORDER BY r.queue LIMIT 1) FROM w WHERE w.queue IS NOT NULL
    ) SELECT w.queue FROM w WHERE w.queue IS NOT NULL
  LOOP
    v_room := limits.OFFER_WINDOW - (SELECT count(*) FROM (SELECT FROM ready r WHERE r.queue = q AND r.offered_at <= v_now LIMIT limits.OFFER_WINDOW) x);
    CONTINUE WHEN v_room < 50;
    v_ids := v_ids || (SELECT array_agg(x.step_id) FROM (SELECT r.step_id FROM ready r WHERE r.queue = q AND r.offered_at IS NULL ORDER BY r.priority DESC, r.since LIMIT least(v_room, p_batch) FOR UPDATE SKIP LOCKED) x);
  END LOOP;
  FOR q IN
    WITH RECURSIVE w(queue) AS (
      (SELECT r.queue FROM ready r WHERE r.offered_at IS NOT NULL ORDER BY r.queue LIMIT 1)
      UNION ALL
      SELECT (SELECT r.queue FROM ready r WHERE r.offered_at IS NOT NULL AND r.queue > w.queue ORDER BY r.queue LIMIT 1) FROM w WHERE w.queue IS NOT NULL
    ) SELECT w.queue FROM w WHERE w.queue IS NOT NULL
  LOOP
    -- each time twice as late as the time before: a queue without workers is not a storm
    v_again := v_again || (SELECT array_agg(x.step_id) FROM (
      SELECT r.step_id FROM ready r WHERE r.queue = q AND r.offered_at < v_now - p_again_ms * interval '1 ms' AND r.offered_at < v_now - least(p_again_ms * 2 ^ (least(r.offers, 10) - 1), 300000) * interval '1 ms'
      ORDER BY r.offered_at LIMIT p_batch FOR UPDATE SKIP LOCKED) x);
  END LOOP;
  IF v_ids IS NOT NULL AND EXISTS (SELECT FROM queue_pause) THEN
    -- what waits in a queue that its tenant paused leaves the backlog too: others wait behind it
    WITH p AS (
      UPDATE ready r SET offered_at = v_now + interval '5 min' WHERE r.step_id = ANY (v_ids) AND EXISTS (SELECT FROM queue_pause z WHERE z.queue = r.queue AND z.tenant_id = r.tenant_id) RETURNING r.step_id
    ) SELECT array_agg(p.step_id) INTO v_parked FROM p;
    v_ids := ARRAY(SELECT u FROM unnest(v_ids) u WHERE u <> ALL (coalesce(v_parked, '{}')));
  END IF;
  -- what nobody can lease leaves the window, or it would keep all others out: its run or queue is paused, its run is ending, or no worker serves it. It is looked at again after a while, and before that when its run is resumed or such a worker comes
  WITH p AS (
    UPDATE ready r SET offered_at = v_now + interval '5 min' WHERE r.step_id = ANY (v_again) AND NOT is_leasable(r) RETURNING r.step_id
  ) SELECT array_agg(p.step_id) INTO v_parked FROM p;
  v_ids := v_ids || CASE WHEN v_parked IS NULL THEN v_again ELSE ARRAY(SELECT u FROM unnest(v_again) u WHERE u <> ALL (v_parked)) END;
  IF coalesce(cardinality(v_ids), 0) = 0 THEN RETURN 0; END IF;
  UPDATE ready r SET offered_at = v_now, offers = least(r.offers + 1, 30000) WHERE r.step_id = ANY (v_ids);
  INSERT INTO outbox (part, tenant_id, topic, key, type, body)
  SELECT outbox_partition_of((array_agg(x.step_id))[1]), x.tenant_id, 'stanchion.workers.' || x.queue || '.commands.v1', gen_random_uuid()::text, 'ExecuteSteps',
         jsonb_build_object('workflow', x.workflow, 'version', x.workflow_version, 'node', x.node, 'steps', jsonb_agg(x.step_id))::text
  FROM (SELECT y.*, y.n / CASE WHEN y.offers <= 1 THEN max(CASE WHEN y.n = 0 THEN steps_in_offer(y.workflow, y.workflow_version, y.node, y.of) END) OVER (PARTITION BY y.tenant_id, y.queue, y.workflow, y.workflow_version, y.node) ELSE 1 END AS chunk FROM (
    SELECT r.*, row_number() OVER w - 1 AS n, count(*) OVER (PARTITION BY r.tenant_id, r.queue, r.workflow, r.workflow_version, r.node) AS of
    FROM ready r WHERE r.step_id = ANY (v_ids) WINDOW w AS (PARTITION BY r.tenant_id, r.queue, r.workflow, r.workflow_version, r.node ORDER BY r.priority DESC, r.since)) y) x
  GROUP BY x.tenant_id, x.queue, x.workflow, x.workflow_version, x.node, x.chunk;
  RETURN cardinality(v_ids);
END $$;
