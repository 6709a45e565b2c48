-- purpose: the next messages of a relay's partitions: all visible rows by id, no cursor, so that none is ever skipped
-- transition: none
-- fenced by: the partition's owner; not its fence, since what is sent twice is harmless: relay_sent compares that before anything is deleted
-- locks: none
CREATE FUNCTION relay_read(p_relay uuid, p_parts int[], p_limit int) RETURNS TABLE (id bigint, part int, tenant_id uuid, message_id uuid, topic text, key text, type text, correlation_id text, causation_id text, sequence bigint, at timestamptz, body text)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.id, o.part::int, o.tenant_id, o.message_id, o.topic, o.key, o.type, o.correlation_id, o.causation_id, o.sequence, o.at, o.body
  FROM unnest(p_parts) u(part), LATERAL (SELECT x.* FROM outbox x WHERE x.part = u.part ORDER BY x.id LIMIT p_limit) o
  WHERE (SELECT p.owner = p_relay FROM outbox_partition p WHERE p.part = u.part)
$$;
