-- purpose: what a barrier's counts should be, from its children; a maintenance check and the repair of a counter that was damaged by hand
-- transition: none
-- fenced by: nothing; it reports, and sets only slots of a barrier that still waits
-- locks: slots, then the barrier
CREATE FUNCTION recount_barrier(p_barrier uuid, p_repair boolean) RETURNS TABLE (slot int, stored int, counted int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  b barrier;
BEGIN
  PERFORM FROM barrier_slot l WHERE l.barrier_id = p_barrier ORDER BY l.slot FOR NO KEY UPDATE;
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.slots > 0 FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  RETURN QUERY WITH n AS (
    SELECT (i / 64) % 16 AS slot, count(*)::int AS n FROM generate_series(0, b.expected - 1) i
    WHERE NOT EXISTS (SELECT FROM step s WHERE s.fan_id = b.fan_id AND s.idx = i AND p_barrier = ANY (s.feeds)
      AND (s.state IN ('succeeded', 'skipped', 'cancelled') OR (s.state = 'failed' AND b.on_failed <> 'hold')) AND s.replaced_by IS NULL) GROUP BY 1
  ), f AS (
    UPDATE barrier_slot l SET remaining = coalesce((SELECT n.n FROM n WHERE n.slot = l.slot), 0) WHERE p_repair AND b.state = 'waiting' AND l.barrier_id = p_barrier AND l.remaining <> coalesce((SELECT n.n FROM n WHERE n.slot = l.slot), 0)
  )
  SELECT l.slot::int, l.remaining, coalesce((SELECT n.n FROM n WHERE n.slot = l.slot), 0) FROM barrier_slot l WHERE l.barrier_id = p_barrier AND l.remaining <> coalesce((SELECT n.n FROM n WHERE n.slot = l.slot), 0);
END $$;
