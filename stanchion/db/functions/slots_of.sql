-- purpose: what has settled of the branches that a join waits for, a slot; the slot of a branch is fixed by its index
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION slots_of(b barrier) RETURNS TABLE (slot int, ok int, bad int, skipped int, remaining int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT c.slot, coalesce(x.ok, 0), coalesce(x.bad, 0), coalesce(x.skipped, 0), c.capacity - coalesce(x.ok + x.bad + x.skipped, 0)
  FROM (SELECT slot_of(i) AS slot, count(*)::int AS capacity FROM generate_series(0, b.expected - 1) i GROUP BY 1) c
  LEFT JOIN (
    SELECT slot_of(s.idx) AS slot, (count(*) FILTER (WHERE s.state = 'succeeded'))::int AS ok,
      (count(*) FILTER (WHERE s.state = 'failed' OR (s.state = 'skipped' AND s.spoiled)))::int AS bad,
      (count(*) FILTER (WHERE s.state = 'cancelled' OR (s.state = 'skipped' AND NOT s.spoiled)))::int AS skipped
    FROM step s WHERE s.fan_id = b.fan_id AND b.barrier_id = ANY (s.feeds) AND s.replaced_by IS NULL GROUP BY 1
  ) x ON x.slot = c.slot
$$;
