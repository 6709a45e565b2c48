-- purpose: the deliveries of a tenant, of one webhook or of all, newest first
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_deliveries(p_tenant uuid, p_webhook uuid, p_state text, p_before uuid, p_limit int)
RETURNS TABLE (delivery_id uuid, webhook_id uuid, event_id uuid, type text, subject text, state text, tries int, status int, error text, created_at timestamptz, due_at timestamptz, ended_at timestamptz) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.delivery_id, d.webhook_id, d.event_id, d.type, d.subject, d.state, d.tries, d.status, d.error, d.created_at, d.due_at, d.ended_at FROM webhook_delivery d
  WHERE d.tenant_id = p_tenant AND (p_webhook IS NULL OR d.webhook_id = p_webhook) AND (p_state IS NULL OR d.state = p_state) AND (p_before IS NULL OR d.delivery_id < p_before) ORDER BY d.delivery_id DESC LIMIT p_limit
$$;
