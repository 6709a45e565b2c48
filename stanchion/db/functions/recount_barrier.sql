-- purpose: set a waiting join's counts to what its branches say, after a counter was damaged from outside; then decide it, as an arrival would have
-- transition: those of decide_barrier
-- fenced by: the join's state; what has settled is counted under the locks that every arrival takes
-- locks: slots, the barrier, then those of any arrival; the audit chain last
CREATE FUNCTION recount_barrier(p_barrier uuid) RETURNS jsonb LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  v_before jsonb;
  v_after jsonb;
  c record;
  d record;
BEGIN
  PERFORM FROM barrier_slot l WHERE l.barrier_id = p_barrier ORDER BY l.slot FOR NO KEY UPDATE;
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.state = 'waiting' AND x.kind = 'gather' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT jsonb_build_object('counts', jsonb_build_array(b.succeeded, b.failed, b.skipped), 'slots_left', b.slots_left, 'left', coalesce(sum(l.remaining), 0)) INTO v_before FROM barrier_slot l WHERE l.barrier_id = p_barrier;
  IF b.slots > 0 THEN
    UPDATE barrier_slot l SET remaining = x.remaining FROM slots_of(b) x WHERE l.barrier_id = p_barrier AND l.slot = x.slot AND l.remaining <> x.remaining;
  END IF;
  SELECT coalesce(sum(x.ok), 0)::int AS ok, coalesce(sum(x.bad), 0)::int AS bad, coalesce(sum(x.skipped), 0)::int AS skipped, count(*) FILTER (WHERE x.remaining > 0)::int AS slots_left INTO c FROM slots_of(b) x;
  UPDATE barrier x SET failed = c.bad, skipped = c.skipped, slots_left = CASE WHEN x.slots > 0 THEN c.slots_left ELSE 0 END,
    succeeded = CASE WHEN x.slots = 0 OR c.slots_left = 0 THEN c.ok ELSE 0 END,
    need = CASE WHEN x.share IS NULL THEN x.need ELSE needed(x.share, x.expected - c.skipped) END
  WHERE x.barrier_id = p_barrier RETURNING * INTO b;
  SELECT jsonb_build_object('counts', jsonb_build_array(b.succeeded, b.failed, b.skipped), 'slots_left', b.slots_left, 'left', coalesce(sum(l.remaining), 0)) INTO v_after FROM barrier_slot l WHERE l.barrier_id = p_barrier;
  IF v_before = v_after THEN RETURN NULL; END IF;
  SELECT * INTO d FROM decide_barrier(b, '{}');
  IF d.o_ready IS NOT NULL THEN PERFORM make_ready(ARRAY[d.o_ready]); END IF;
  PERFORM spread(d.o_arrivals, d.o_skipped, d.o_after);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (b.tenant_id, 'maintenance', 'barrier.recount', p_barrier::text, jsonb_build_object('before', v_before, 'after', v_after));
  RETURN jsonb_build_object('before', v_before, 'after', v_after);
END $$;
