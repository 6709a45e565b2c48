-- purpose: pause a queue of a tenant: nothing new of it is leased or offered, what runs goes on; what is offered already leaves the window to others
-- transition: none
-- fenced by: the primary key: of two who pause it at once the first one's reason stands
-- locks: the advisory lock on putting aside, shared with offers; ready rows (skipping locked ones); the audit chain last
CREATE FUNCTION pause_queue(p_tenant uuid, p_queue text, p_reason text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('put aside', 0));
  INSERT INTO queue_pause (tenant_id, queue, reason, paused_by, since) VALUES (p_tenant, p_queue, p_reason, p_actor, v_now) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE ready r SET offered_at = v_now + interval '5 min' WHERE r.step_id = ANY (ARRAY(
    SELECT x.step_id FROM ready x WHERE x.queue = p_queue AND x.offered_at <= v_now AND x.tenant_id = p_tenant FOR UPDATE SKIP LOCKED));
  PERFORM note_act(p_tenant, p_actor, 'queue.pause', p_queue, jsonb_build_object('reason', p_reason));
  RETURN true;
END $$;
