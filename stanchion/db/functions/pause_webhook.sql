-- purpose: hold the deliveries of a webhook, or let them go again, also after it failed; false when there is none
-- transition: webhook active -> paused, paused|failed -> active; its deliveries are held, or due at once
-- fenced by: nothing
-- locks: the webhook, its deliveries; the audit chain last
CREATE FUNCTION pause_webhook(p_tenant uuid, p_webhook uuid, p_paused boolean, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_was text;
BEGIN
  SELECT w.state INTO v_was FROM webhook w WHERE w.webhook_id = p_webhook AND w.tenant_id = p_tenant FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  IF v_was = (CASE WHEN p_paused THEN 'paused' ELSE 'active' END) THEN RETURN true; END IF;
  UPDATE webhook w SET state = CASE WHEN p_paused THEN 'paused' ELSE 'active' END, changed_at = clock() WHERE w.webhook_id = p_webhook AND w.tenant_id = p_tenant;
  UPDATE webhook_delivery d SET due_at = CASE WHEN NOT p_paused THEN clock() END, give_up_at = CASE WHEN p_paused THEN d.give_up_at ELSE greatest(d.give_up_at, clock() + interval '1 hour') END
  WHERE d.webhook_id = p_webhook AND d.tenant_id = p_tenant AND d.state = 'due';
  PERFORM note_act(p_tenant, p_actor, CASE WHEN p_paused THEN 'webhook.pause' ELSE 'webhook.resume' END, p_webhook::text, jsonb_build_object('before', v_was));
  RETURN true;
END $$;
