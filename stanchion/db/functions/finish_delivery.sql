-- purpose: what became of a try: sent, due again after a delay, or given up after its time; false: another courier has it, or it is gone
-- transition: webhook delivery due -> sent|due|failed; when it is given up, webhook active -> failed and what else waits for it is held
-- fenced by: the delivery's fence
-- locks: the webhook when it is given up, then its deliveries; the audit chain last
CREATE FUNCTION finish_delivery(p_tenant uuid, p_delivery uuid, p_fence bigint, p_sent boolean, p_status int, p_error text, p_delay_ms bigint) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  d webhook_delivery;
BEGIN
  UPDATE webhook_delivery x SET tries = x.tries + 1, status = p_status, error = p_error,
    state = CASE WHEN p_sent THEN 'sent' WHEN x.give_up_at <= clock() THEN 'failed' ELSE 'due' END,
    ended_at = CASE WHEN p_sent OR x.give_up_at <= clock() THEN clock() END,
    -- one that was held meanwhile stays held
    due_at = CASE WHEN p_sent OR x.give_up_at <= clock() OR x.due_at IS NULL THEN NULL ELSE clock() + p_delay_ms * interval '1 ms' END
  WHERE x.delivery_id = p_delivery AND x.tenant_id = p_tenant AND x.fence = p_fence AND x.state = 'due' RETURNING * INTO d;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF d.state = 'failed' THEN
    UPDATE webhook w SET state = 'failed', changed_at = clock() WHERE w.webhook_id = d.webhook_id AND w.tenant_id = p_tenant AND w.state = 'active';
    IF FOUND THEN
      UPDATE webhook_delivery x SET due_at = NULL WHERE x.webhook_id = d.webhook_id AND x.tenant_id = p_tenant AND x.state = 'due';
      PERFORM note_act(p_tenant, 'engine', 'webhook.fail', d.webhook_id::text, jsonb_build_object('delivery', p_delivery, 'tries', d.tries, 'status', p_status, 'error', p_error));
    END IF;
  END IF;
  RETURN d.state;
END $$;
