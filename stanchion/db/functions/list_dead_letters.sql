-- purpose: parked messages of a tenant, or (without a tenant) those that belong to none, newest first, without their bytes
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_dead_letters(p_tenant uuid, p_before uuid, p_limit int)
RETURNS TABLE (dead_letter_id uuid, topic text, partition int, "offset" bigint, bytes int, code text, reason text, at timestamptz, redriven_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.dead_letter_id, d.topic, d.partition, d."offset", octet_length(d.value), d.code, d.reason, d.at, d.redriven_at FROM dead_letter d
  WHERE d.tenant_id IS NOT DISTINCT FROM p_tenant AND (p_before IS NULL OR d.dead_letter_id < p_before) ORDER BY d.dead_letter_id DESC LIMIT p_limit
$$;
