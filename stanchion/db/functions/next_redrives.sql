-- purpose: the next parked messages that a bulk redrive is about, oldest first, with their bytes; the nil tenant means those of none
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION next_redrives(p_tenant uuid, p_topic text, p_code text, p_before timestamptz, p_after uuid, p_limit int)
RETURNS TABLE (dead_letter_id uuid, topic text, partition int, "offset" bigint, key bytea, value bytea, headers jsonb, code text, reason text, at timestamptz, redriven_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.dead_letter_id, d.topic, d.partition, d."offset", d.key, d.value, d.headers, d.code, d.reason, d.at, d.redriven_at FROM dead_letter d
  WHERE d.tenant_id IS NOT DISTINCT FROM nullif(p_tenant, '00000000-0000-0000-0000-000000000000') AND d.dead_letter_id > p_after AND d.redriven_at IS NULL AND d.at <= p_before
    AND (p_topic IS NULL OR d.topic = p_topic OR d.topic = 'outbox:' || p_topic) AND (p_code IS NULL OR d.code = p_code)
  ORDER BY d.dead_letter_id LIMIT p_limit
$$;
