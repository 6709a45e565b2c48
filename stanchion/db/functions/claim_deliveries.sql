-- purpose: a courier takes deliveries that are due, of each webhook as many as it still has hands for; a lease is a due time in the future, so one that is lost comes again by itself
-- transition: none: a delivery stays due until it was sent or given up
-- fenced by: the fence, which rises with each claim
-- locks: the deliveries, skipping locked ones
CREATE FUNCTION claim_deliveries(p_limit int, p_each int, p_busy uuid[], p_lease_ms int) RETURNS TABLE (delivery_id uuid, tenant_id uuid, tenant text, webhook_id uuid, url text, master text, event_id uuid, type text, subject text, body jsonb, fence bigint, tries int, created_at timestamptz)
LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  -- looked for webhook by webhook: an endpoint that hangs, and all that waits for it, hides nobody else's deliveries
  WITH claimed AS MATERIALIZED (
    SELECT y.* FROM webhook w, LATERAL (
      SELECT d.delivery_id, d.tenant_id, d.due_at FROM webhook_delivery d WHERE d.webhook_id = w.webhook_id AND d.state = 'due' AND d.due_at <= (SELECT clock())
      ORDER BY d.due_at LIMIT greatest(0, p_each - coalesce(cardinality(array_positions(p_busy, w.webhook_id)), 0)) FOR NO KEY UPDATE SKIP LOCKED) y
    ORDER BY y.due_at LIMIT p_limit
  )
  UPDATE webhook_delivery d SET fence = d.fence + 1, due_at = clock() + p_lease_ms * interval '1 ms'
  FROM claimed x JOIN tenant t ON t.tenant_id = x.tenant_id, webhook w
  WHERE d.delivery_id = x.delivery_id AND d.tenant_id = x.tenant_id AND w.webhook_id = d.webhook_id AND w.tenant_id = d.tenant_id
  RETURNING d.delivery_id, d.tenant_id, t.name, d.webhook_id, w.url, w.master, d.event_id, d.type, d.subject, d.body, d.fence, d.tries, d.created_at
$$;
