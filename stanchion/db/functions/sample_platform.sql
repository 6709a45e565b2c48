-- purpose: what stands at this moment and belongs to no tenant: the outbox and its relays, workers, connections and the size of the database
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION sample_platform() RETURNS TABLE (name text, value float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH now AS MATERIALIZED (SELECT clock() AS at), w AS MATERIALIZED (
    SELECT CASE WHEN x.state = 'gone' THEN 'gone' WHEN x.seen_at <= now.at - limits.WORKER_SEEN_SECONDS * interval '1 s' THEN 'silent' ELSE 'live' END AS state, count(*)::float8 AS n, sum(x.slots)::float8 AS slots, sum(x.running)::float8 AS running
    FROM worker x, now GROUP BY 1
  )
  SELECT x.name, x.value FROM outbox_lag() o, LATERAL (VALUES ('outbox_rows', o.waiting::float8), ('outbox_lag_seconds', greatest(o.oldest_seconds, 0))) x(name, value)
  UNION ALL SELECT 'relays', count(*)::float8 FROM relay
  UNION ALL SELECT 'relay_partitions', count(*)::float8 FROM outbox_partition p, now WHERE p.owner IS NOT NULL AND p.lease_until >= now.at
  -- what left the outbox since the server began to count: published, or parked; no transaction counts it
  UNION ALL SELECT 'outbox_left_total', pg_stat_get_tuples_deleted('stanchion.outbox'::regclass)::float8
  UNION ALL SELECT 'workers_' || s.state, coalesce((SELECT w.n FROM w WHERE w.state = s.state), 0) FROM (VALUES ('live'), ('silent'), ('gone')) s(state)
  UNION ALL SELECT 'slots', coalesce((SELECT w.slots FROM w WHERE w.state = 'live'), 0)
  UNION ALL SELECT 'slots_busy', coalesce((SELECT w.running FROM w WHERE w.state = 'live'), 0)
  UNION ALL SELECT 'db_connections', (SELECT sum(d.numbackends)::float8 FROM pg_stat_database d)
  UNION ALL SELECT 'db_connections_max', current_setting('max_connections')::float8
  UNION ALL SELECT 'db_bytes', pg_database_size(current_database())::float8
$$;
