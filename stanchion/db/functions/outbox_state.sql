-- purpose: what waits in the outbox, by age, topic and partition, how much of it is one tenant's, and which relay holds each partition
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION outbox_state(p_tenant uuid) RETURNS TABLE (waiting bigint, own bigint, oldest_at timestamptz, ages jsonb, topics jsonb, partitions jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  -- a hundred thousand are looked at: beyond that it is "more", and the oldest are the ones that are seen
  WITH now AS MATERIALIZED (SELECT clock() AS at), o AS MATERIALIZED (
    SELECT x.part, x.tenant_id, x.topic, x.at, extract(epoch FROM now.at - x.at) AS age FROM (SELECT y.part, y.tenant_id, y.topic, y.at FROM outbox y ORDER BY y.id LIMIT 100000) x, now
  ), t AS (
    SELECT o.topic, count(*) AS waiting, min(o.at) AS oldest_at FROM o GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 200
  )
  SELECT (SELECT count(*) FROM o), (SELECT count(*) FROM o WHERE o.tenant_id = p_tenant), (SELECT min(o.at) FROM o),
    (SELECT jsonb_agg(jsonb_build_object('below_seconds', b.top, 'waiting', (SELECT count(*) FROM o WHERE (o.age >= b.bottom OR b.bottom = 0) AND (b.top IS NULL OR o.age < b.top))) ORDER BY b.bottom)
     FROM (VALUES (0, 1), (1, 5), (5, 30), (30, 300), (300, NULL)) b(bottom, top)),
    (SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') FROM t),
    (SELECT jsonb_agg(jsonb_build_object('part', p.part, 'relay', r.name, 'relay_id', p.owner, 'fence', p.fence, 'held', p.owner IS NOT NULL AND p.lease_until >= now.at, 'lease_until', nullif(p.lease_until, '-infinity'), 'seen_at', r.seen_at,
       'waiting', (SELECT count(*) FROM o WHERE o.part = p.part), 'oldest_at', (SELECT min(o.at) FROM o WHERE o.part = p.part)) ORDER BY p.part)
     FROM outbox_partition p LEFT JOIN relay r ON r.relay_id = p.owner, now)
$$;
