-- purpose: something happened that webhooks may want to hear of: one delivery for each that does, in the transaction of its cause
-- transition: births: webhook deliveries, due (held when their webhook is paused or has failed)
-- fenced by: the unique key (webhook, event)
-- locks: only new rows
CREATE FUNCTION notify_webhooks(p_tenant uuid, p_event text, p_subject text, p_body jsonb) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_event uuid;
  v_n int;
BEGIN
  -- most tenants have none, and this stands in hot transactions
  IF NOT EXISTS (SELECT FROM webhook w WHERE w.tenant_id = p_tenant) THEN RETURN 0; END IF;
  v_event := uuidv7();
  INSERT INTO webhook_delivery (delivery_id, tenant_id, webhook_id, event_id, type, subject, body, due_at, give_up_at)
  SELECT uuidv7(), p_tenant, w.webhook_id, v_event, p_event, p_subject, p_body, CASE w.state WHEN 'active' THEN clock() END, clock() + interval '3 days'
  FROM webhook w WHERE w.tenant_id = p_tenant AND (p_event = ANY (w.events) OR '*' = ANY (w.events));
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
