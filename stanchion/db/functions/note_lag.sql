-- purpose: keep what a look at the broker found, or why there was nothing to find: where each group stands, what it reads of each partition, and since when it has not come on; what did not change is not written
-- transition: none
-- fenced by: nothing: of two looks that overlap the later one to write stands
-- locks: the one row, then groups by name, partitions by topic and number
CREATE FUNCTION note_lag(p_groups jsonb, p_places jsonb, p_fault jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  UPDATE lag_look x SET fault = p_fault, failing_since = CASE WHEN p_fault IS NOT NULL THEN coalesce(x.failing_since, v_now) END, answered_at = CASE WHEN p_fault IS NULL THEN v_now ELSE x.answered_at END;
  IF p_fault IS NOT NULL THEN RETURN; END IF;
  INSERT INTO consumer_group AS g (name, state, members, since, seen_at)
  SELECT n.name, n.state, n.members, v_now, v_now FROM jsonb_to_recordset(p_groups) AS n(name text, state text, members text[]) ORDER BY n.name
  ON CONFLICT (name) DO UPDATE SET state = excluded.state, members = excluded.members, seen_at = v_now,
    since = CASE WHEN excluded.state = g.state THEN g.since ELSE v_now END,
    -- one is under way, or others are in the group than before: one that nobody saw has been
    rebalances = CASE WHEN excluded.state = 'rebalancing' AND g.state <> 'rebalancing' OR excluded.state = 'steady' AND g.state <> 'rebalancing' AND excluded.members <> g.members THEN (array_prepend(v_now, g.rebalances))[1:20] ELSE g.rebalances END;
  DELETE FROM consumer_group g WHERE g.seen_at < v_now;
  INSERT INTO consumer_lag AS p (group_name, topic, partition, end_offset, committed, owner, moved_at, seen_at)
  SELECT n."group", n.topic, n.partition, n."end", n.committed, n.owner, v_now, v_now
  FROM jsonb_to_recordset(p_places) AS n("group" text, topic text, partition int, "end" bigint, committed bigint, owner text) ORDER BY n.topic, n."group", n.partition
  ON CONFLICT (topic, group_name, partition) DO UPDATE SET end_offset = excluded.end_offset, committed = excluded.committed, owner = excluded.owner, seen_at = v_now,
    -- who had nothing before it until now has not been standing
    moved_at = CASE WHEN excluded.committed IS DISTINCT FROM p.committed OR coalesce(p.committed, 0) >= p.end_offset OR coalesce(excluded.committed, 0) >= excluded.end_offset THEN v_now ELSE p.moved_at END,
    -- half of what it was and half of what it is: a broker that came back empty gives no rate
    rate_in = CASE WHEN v_now > p.seen_at THEN (p.rate_in + greatest(excluded.end_offset - p.end_offset, 0) / extract(epoch FROM v_now - p.seen_at)) / 2 ELSE p.rate_in END,
    rate_out = CASE WHEN v_now > p.seen_at THEN (p.rate_out + greatest(excluded.committed - coalesce(p.committed, 0), 0) / extract(epoch FROM v_now - p.seen_at)) / 2 ELSE p.rate_out END
  WHERE (excluded.end_offset, excluded.committed, excluded.owner) IS DISTINCT FROM (p.end_offset, p.committed, p.owner) OR p.rate_in > 0.01 OR p.rate_out > 0.01;
  -- what is there is what the last look found
  DELETE FROM consumer_lag p WHERE NOT EXISTS (SELECT FROM jsonb_to_recordset(p_places) AS n("group" text, topic text, partition int) WHERE n.topic = p.topic AND n."group" = p.group_name AND n.partition = p.partition);
END $$;
