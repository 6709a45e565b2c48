-- purpose: joins of live runs whose counts are not those of their branches, among the next ones that have waited for so long; one snapshot sees both, so it takes no locks
-- transition: none
-- fenced by: nothing: recount_barrier looks again, under locks
-- locks: none
CREATE FUNCTION miscounted_barriers(p_after uuid, p_older interval, p_limit int, OUT o_last uuid, OUT o_looked int, OUT o_wrong uuid[]) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH w AS MATERIALIZED (
    SELECT b.barrier_id, b.kind, b.state, b.run_id, b.created_at FROM barrier b WHERE b.barrier_id > p_after ORDER BY b.barrier_id LIMIT p_limit
  ), k AS (
    SELECT b AS b FROM w JOIN barrier b ON b.barrier_id = w.barrier_id
    WHERE w.kind = 'gather' AND w.state = 'waiting' AND w.created_at < clock() - p_older AND EXISTS (SELECT FROM run r WHERE r.run_id = w.run_id AND r.state IN ('created', 'running'))
  )
  SELECT (SELECT w.barrier_id FROM w ORDER BY w.barrier_id DESC LIMIT 1), (SELECT count(*)::int FROM k),
    ARRAY(SELECT (k.b).barrier_id FROM k WHERE is_miscounted(k.b))
$$;
