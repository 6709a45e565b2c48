-- purpose: the webhooks of a tenant, newest first, with what waits and what was given up
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_webhooks(p_tenant uuid, p_before uuid, p_limit int) RETURNS TABLE (webhook_id uuid, url text, events text[], state text, created_by text, created_at timestamptz, changed_at timestamptz, waiting bigint, failed bigint)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT w.webhook_id, w.url, w.events, w.state, w.created_by, w.created_at, w.changed_at,
    (SELECT count(*) FROM webhook_delivery d WHERE d.webhook_id = w.webhook_id AND d.tenant_id = w.tenant_id AND d.state = 'due'),
    (SELECT count(*) FROM webhook_delivery d WHERE d.webhook_id = w.webhook_id AND d.tenant_id = w.tenant_id AND d.state = 'failed')
  FROM webhook w WHERE w.tenant_id = p_tenant AND (p_before IS NULL OR w.webhook_id < p_before) ORDER BY w.webhook_id DESC LIMIT p_limit
$$;
