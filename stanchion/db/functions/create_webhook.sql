-- purpose: a webhook; its secret is derived outside from a master key and its id, so that none is kept here; false above the limit of a tenant
-- transition: births: webhook active
-- fenced by: the limit, counted under the tenant's lock
-- locks: an advisory lock on the tenant's webhooks, a new row; the audit chain last
CREATE FUNCTION create_webhook(p_tenant uuid, p_webhook uuid, p_url text, p_events text[], p_master text, p_most int, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('webhooks:' || p_tenant::text, 0));
  IF (SELECT count(*) FROM webhook w WHERE w.tenant_id = p_tenant) >= p_most THEN RETURN false; END IF;
  INSERT INTO webhook (webhook_id, tenant_id, url, events, master, created_by) VALUES (p_webhook, p_tenant, p_url, p_events, p_master, p_actor);
  PERFORM note_act(p_tenant, p_actor, 'webhook.create', p_webhook::text, jsonb_build_object('url', p_url, 'events', p_events));
  RETURN true;
END $$;
