-- purpose: after an early release (or a failure) with rest=cancel, cancel the branches that have not started; those that run may finish, late
-- transition: step pending|ready|retry_wait -> cancelled
-- fenced by: the barrier being decided
-- locks: an advisory lock on the barrier's sweep; steps by id (skipping locked ones), then slots and barriers
CREATE FUNCTION sweep_barrier(p_barrier uuid, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  v_ids uuid[];
  v_fans uuid[];
  v_arrivals arrival[];
  v_settled uuid[];
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('sweep:' || p_barrier::text, 0)) THEN RETURN 0; END IF;
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.kind = 'gather' AND x.state <> 'waiting' AND NOT x.closed AND x.rest = 'cancel';
  IF NOT FOUND THEN RETURN 0; END IF;
  WITH RECURSIVE f(id) AS (SELECT b.fan_id UNION ALL SELECT s.step_id FROM f, step s WHERE s.fan_id = f.id AND s.kind = 'fan') SELECT array_agg(f.id) INTO v_fans FROM f;
  SELECT array_agg(x.step_id) INTO v_ids FROM (SELECT s.step_id FROM step s WHERE s.fan_id = ANY (v_fans) AND s.state IN ('pending', 'ready', 'retry_wait') LIMIT p_limit) x;
  IF v_ids IS NULL THEN RETURN 0; END IF;
  v_ids := cancel_pending(v_ids, jsonb_build_object('code', 'E-JOIN-23', 'what', 'the join was decided without it'));
  SELECT array_agg(a), array_agg(x.run_id) FILTER (WHERE x.counts) INTO v_arrivals, v_settled FROM (SELECT s AS s, s.run_id, s.counts FROM step s WHERE s.step_id = ANY (v_ids)) x LEFT JOIN LATERAL unnest(arrivals_of(x.s, 'skipped')) a ON true;
  PERFORM spread(array_remove(v_arrivals, NULL), '{}');
  PERFORM settle_runs(v_settled);
  RETURN cardinality(v_ids);
END $$;
