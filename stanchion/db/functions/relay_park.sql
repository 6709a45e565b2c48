-- purpose: a message that can't be published at all (too large, a topic that is not allowed) must not stop those behind it
-- transition: none
-- fenced by: nothing: parking twice is harmless
-- locks: the outbox row
CREATE FUNCTION relay_park(p_id bigint, p_code text, p_reason text) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH d AS (DELETE FROM outbox o WHERE o.id = p_id RETURNING o.*)
  INSERT INTO dead_letter (tenant_id, topic, partition, "offset", key, value, headers, code, reason)
  SELECT d.tenant_id, 'outbox:' || d.topic, d.part, d.id, convert_to(d.key, 'UTF8'), convert_to(d.body, 'UTF8'), jsonb_build_array(jsonb_build_array('ce_type', d.type)), p_code, p_reason FROM d
  RETURNING true
$$;
