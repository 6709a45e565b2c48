-- purpose: send a delivery again, whether it was sent, given up, or waits for its next try; false when there is none
-- transition: webhook delivery sent|failed|due -> due
-- fenced by: the fence rises, so that a try that is under way decides nothing any more
-- locks: the delivery; the audit chain last
CREATE FUNCTION resend_delivery(p_tenant uuid, p_delivery uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  d webhook_delivery;
BEGIN
  UPDATE webhook_delivery x SET state = 'due', ended_at = NULL, due_at = clock(), give_up_at = clock() + interval '3 days', fence = x.fence + 1
  WHERE x.delivery_id = p_delivery AND x.tenant_id = p_tenant RETURNING * INTO d;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'webhook.resend', p_delivery::text, jsonb_build_object('webhook', d.webhook_id, 'type', d.type, 'subject', d.subject));
  RETURN true;
END $$;
