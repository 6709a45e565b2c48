-- purpose: what the relay had parked goes back into the outbox as the message that it was: to its readers it is the same one, in its place among its run's events
-- transition: none
-- fenced by: the caller has claimed the letters
-- locks: only new rows
CREATE FUNCTION put_back(p_ids uuid[], p_tenant uuid) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO outbox (part, tenant_id, message_id, topic, key, type, correlation_id, causation_id, sequence, at, body)
  SELECT d.partition, coalesce(d.tenant_id, p_tenant), coalesce(header_of(d.headers, 'ce_id')::uuid, uuidv7()), substr(d.topic, 8), convert_from(d.key, 'UTF8'), header_of(d.headers, 'ce_type'),
         header_of(d.headers, 'ce_correlationid'), header_of(d.headers, 'ce_causationid'), header_of(d.headers, 'ce_sequence')::bigint, coalesce(header_of(d.headers, 'ce_time')::timestamptz, clock()), convert_from(d.value, 'UTF8')
  FROM dead_letter d WHERE d.dead_letter_id = ANY (p_ids) AND d.topic LIKE 'outbox:%' ORDER BY d."offset"
$$;
