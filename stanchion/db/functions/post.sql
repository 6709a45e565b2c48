-- purpose: put messages (replies, dead letters) into the outbox from a service
-- transition: none
-- fenced by: nothing
-- locks: only new rows
CREATE FUNCTION post(p_messages jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, causation_id, body)
  SELECT outbox_partition_for(x.key), x.tenant_id, x.topic, x.key, x.type, x.correlation_id, x.causation_id, x.body
  FROM jsonb_to_recordset(p_messages) AS x(tenant_id uuid, topic text, key text, type text, correlation_id text, causation_id text, body text)
$$;
