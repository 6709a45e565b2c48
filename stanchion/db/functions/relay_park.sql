-- purpose: a message that can't be published at all (too large, a topic that is not allowed) must not stop those behind it
-- transition: none
-- fenced by: nothing: parking twice is harmless
-- locks: the outbox row
CREATE FUNCTION relay_park(p_id bigint, p_code text, p_reason text) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH d AS (DELETE FROM outbox o WHERE o.id = p_id RETURNING o.*)
  INSERT INTO dead_letter (tenant_id, topic, partition, "offset", key, value, headers, code, reason)
  SELECT d.tenant_id, 'outbox:' || d.topic, d.part, d.id, convert_to(d.key, 'UTF8'), convert_to(d.body, 'UTF8'), (SELECT jsonb_agg(jsonb_build_array(h.name, h.text) ORDER BY h.n) FROM (VALUES
           (1, 'ce_id', d.message_id::text), (2, 'ce_type', d.type), (3, 'ce_time', to_char(d.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
           (4, 'ce_correlationid', d.correlation_id), (5, 'ce_causationid', d.causation_id), (6, 'ce_sequence', d.sequence::text)) h(n, name, text) WHERE h.text IS NOT NULL), p_code, p_reason FROM d
  RETURNING true
$$;
