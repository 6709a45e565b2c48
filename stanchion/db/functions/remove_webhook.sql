-- purpose: remove a webhook with its deliveries; the audit log keeps that it was there; false when there is none
-- transition: none
-- fenced by: nothing
-- locks: the webhook, its deliveries; the audit chain last
CREATE FUNCTION remove_webhook(p_tenant uuid, p_webhook uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_url text;
BEGIN
  DELETE FROM webhook w WHERE w.webhook_id = p_webhook AND w.tenant_id = p_tenant RETURNING w.url INTO v_url;
  IF NOT FOUND THEN RETURN false; END IF;
  DELETE FROM webhook_delivery d WHERE d.webhook_id = p_webhook AND d.tenant_id = p_tenant;
  PERFORM note_act(p_tenant, p_actor, 'webhook.remove', p_webhook::text, jsonb_build_object('url', v_url));
  RETURN true;
END $$;
