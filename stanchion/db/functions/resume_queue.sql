-- purpose: let a paused queue of a tenant go on: what waited is offered again at once
-- transition: none
-- fenced by: nothing
-- locks: the advisory lock on putting aside; ready rows (skipping locked ones); the audit chain last
CREATE FUNCTION resume_queue(p_tenant uuid, p_queue text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  -- nobody puts aside what waits here from a snapshot in which it was still paused
  PERFORM pg_advisory_xact_lock(hashtextextended('put aside', 0));
  DELETE FROM queue_pause q WHERE q.queue = p_queue AND q.tenant_id = p_tenant;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE ready r SET offered_at = NULL WHERE r.step_id = ANY (ARRAY(
    SELECT x.step_id FROM ready x WHERE x.queue = p_queue AND x.offered_at > v_now AND x.tenant_id = p_tenant FOR UPDATE SKIP LOCKED));
  PERFORM note_act(p_tenant, p_actor, 'queue.resume', p_queue, '{}');
  RETURN true;
END $$;
