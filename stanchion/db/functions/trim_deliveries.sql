-- purpose: give up deliveries that were held for too long, and forget those that ended 30 days ago; returns how many rows it touched
-- transition: webhook delivery due -> failed
-- fenced by: the state
-- locks: the deliveries, skipping locked ones
CREATE FUNCTION trim_deliveries(p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_given_up int;
  v_gone int;
BEGIN
  UPDATE webhook_delivery d SET state = 'failed', ended_at = clock(), error = 'E-HOOK-05' WHERE (d.delivery_id, d.tenant_id) IN (
    SELECT x.delivery_id, x.tenant_id FROM webhook_delivery x WHERE x.state = 'due' AND x.due_at IS NULL AND x.give_up_at <= clock() LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_given_up = ROW_COUNT;
  DELETE FROM webhook_delivery d WHERE (d.delivery_id, d.tenant_id) IN (
    SELECT x.delivery_id, x.tenant_id FROM webhook_delivery x WHERE x.ended_at < (SELECT clock()) - interval '30 days' ORDER BY x.ended_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_gone = ROW_COUNT;
  RETURN v_given_up + v_gone;
END $$;
