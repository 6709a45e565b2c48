-- purpose: parked messages that a bulk redrive has sent; those that the relay had parked go back into the outbox here. NULL: another worker has the job
-- transition: none
-- fenced by: the job's fence, and redriven_at: each once
-- locks: the job, then the letters by id
CREATE FUNCTION note_redriven(p_key text, p_tenant uuid, p_fence bigint, p_ids uuid[]) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_sent uuid[];
BEGIN
  PERFORM FROM maintenance_job j WHERE j.kind = 'redrive' AND j.key = p_key AND j.tenant_id = p_tenant AND j.fence = p_fence AND j.state = 'running' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM dead_letter d WHERE d.dead_letter_id = ANY (p_ids) ORDER BY d.dead_letter_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE dead_letter d SET redriven_at = clock() WHERE d.dead_letter_id = ANY (p_ids) AND d.redriven_at IS NULL RETURNING d.dead_letter_id
  ) SELECT coalesce(array_agg(u.dead_letter_id), '{}') INTO v_sent FROM u;
  PERFORM put_back(v_sent, p_tenant);
  RETURN cardinality(v_sent);
END $$;
