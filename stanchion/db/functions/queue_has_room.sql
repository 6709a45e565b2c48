-- purpose: whether an offer may go out at once: the tenant has not paused the queue, no backlog waits before it and, sampled, the window is not full
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION queue_has_room(p_queue text, p_tenant uuid, p_sample boolean) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM ready r WHERE r.queue = p_queue AND r.offered_at IS NULL) OR EXISTS (SELECT FROM queue_pause q WHERE q.queue = p_queue AND q.tenant_id = p_tenant) THEN RETURN false; END IF;
  IF NOT p_sample THEN RETURN true; END IF;
  RETURN (SELECT count(*) FROM (SELECT FROM ready r WHERE r.queue = p_queue AND r.offered_at <= clock() LIMIT limits.OFFER_WINDOW) x) < limits.OFFER_WINDOW;
END $$;
