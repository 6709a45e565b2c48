-- purpose: one parked message with its bytes, of a tenant, or (without a tenant) one that belongs to none
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION get_dead_letter(p_tenant uuid, p_id uuid)
RETURNS TABLE (dead_letter_id uuid, topic text, partition int, "offset" bigint, key bytea, value bytea, headers jsonb, code text, reason text, at timestamptz, redriven_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.dead_letter_id, d.topic, d.partition, d."offset", d.key, d.value, d.headers, d.code, d.reason, d.at, d.redriven_at FROM dead_letter d
  WHERE d.dead_letter_id = p_id AND d.tenant_id IS NOT DISTINCT FROM p_tenant
$$;
