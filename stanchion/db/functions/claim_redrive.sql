-- purpose: the right to send a parked message again, given once unless it is asked for again; what the relay parked goes back into the outbox by itself
-- transition: none
-- fenced by: redriven_at
-- locks: the letter's row; the audit chain last
CREATE FUNCTION claim_redrive(p_tenant uuid, p_id uuid, p_again boolean, p_actor_tenant uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  d dead_letter;
BEGIN
  UPDATE dead_letter x SET redriven_at = clock() WHERE x.dead_letter_id = p_id AND x.tenant_id IS NOT DISTINCT FROM p_tenant AND (x.redriven_at IS NULL OR p_again) RETURNING * INTO d;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM put_back(ARRAY[p_id], p_actor_tenant);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_actor_tenant, p_actor, 'dead_letter.redrive', p_id::text, jsonb_build_object('topic', d.topic, 'again', p_again));
  RETURN true;
END $$;
