-- purpose: the next parked messages that a bulk redrive is about, oldest first, with their bytes: those that were parked before it was asked for, so that one which comes back is not sent for ever
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION next_redrives(p_key text, p_tenant uuid, p_after uuid, p_limit int)
RETURNS TABLE (dead_letter_id uuid, topic text, partition int, "offset" bigint, key bytea, value bytea, headers jsonb, code text, reason text, at timestamptz, redriven_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.dead_letter_id, d.topic, d.partition, d."offset", d.key, d.value, d.headers, d.code, d.reason, d.at, d.redriven_at
  FROM maintenance_job j JOIN dead_letter d ON d.tenant_id IS NOT DISTINCT FROM nullif(p_tenant, '00000000-0000-0000-0000-000000000000')
  WHERE j.kind = 'redrive' AND j.key = p_key AND j.tenant_id = p_tenant AND d.dead_letter_id > p_after AND d.redriven_at IS NULL
    AND d.at <= least(j.created_at, (j.request->>'before')::timestamptz) AND (j.request->>'code' IS NULL OR d.code = j.request->>'code')
    AND (j.request->>'topic' IS NULL OR d.topic = j.request->>'topic' OR d.topic = 'outbox:' || (j.request->>'topic'))
  ORDER BY d.dead_letter_id LIMIT p_limit
$$;
