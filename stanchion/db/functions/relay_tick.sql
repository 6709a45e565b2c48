-- purpose: keep a relay's presence and partitions: claim what nobody holds up to a fair share, give up what is above it
-- transition: none
-- fenced by: each claim raises the partition's fence
-- locks: partition rows (skipping locked ones)
CREATE FUNCTION relay_tick(p_relay uuid, p_name text, p_ttl_ms int) RETURNS TABLE (part int, fence bigint) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock();
  v_share int;
BEGIN
  INSERT INTO relay AS r (relay_id, name, seen_at) VALUES (p_relay, p_name, v_now) ON CONFLICT (relay_id) DO UPDATE SET seen_at = v_now;
  DELETE FROM relay r WHERE r.seen_at < v_now - p_ttl_ms * interval '2 ms';
  v_share := ceil(limits.OUTBOX_PARTITIONS::numeric / greatest((SELECT count(*) FROM relay), 1));
  UPDATE outbox_partition p SET lease_until = v_now + p_ttl_ms * interval '1 ms'
  WHERE p.part IN (SELECT x.part FROM outbox_partition x WHERE x.owner = p_relay AND x.lease_until >= v_now ORDER BY x.part LIMIT v_share FOR NO KEY UPDATE SKIP LOCKED);
  UPDATE outbox_partition p SET owner = NULL WHERE p.part IN (SELECT x.part FROM outbox_partition x WHERE x.owner = p_relay ORDER BY x.part OFFSET v_share FOR NO KEY UPDATE SKIP LOCKED);
  UPDATE outbox_partition p SET owner = p_relay, fence = p.fence + 1, lease_until = v_now + p_ttl_ms * interval '1 ms'
  WHERE p.part IN (SELECT x.part FROM outbox_partition x WHERE x.owner IS NULL OR x.lease_until < v_now ORDER BY x.part
    LIMIT greatest(v_share - (SELECT count(*) FROM outbox_partition y WHERE y.owner = p_relay AND y.lease_until >= v_now), 0) FOR NO KEY UPDATE SKIP LOCKED);
  RETURN QUERY SELECT p.part::int, p.fence FROM outbox_partition p WHERE p.owner = p_relay ORDER BY p.part;
END $$;
