-- purpose: barriers that nobody waits behind any more
-- transition: barrier waiting -> cancelled
-- fenced by: the barrier's state
-- locks: barriers
CREATE FUNCTION cancel_barriers(p_barriers uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  DELETE FROM timer t WHERE t.target_id = ANY (p_barriers);
  WITH u AS (
    UPDATE barrier x SET state = 'cancelled', version = x.version + 1 WHERE x.barrier_id = ANY (p_barriers) AND x.state = 'waiting' RETURNING x.*
  )
  INSERT INTO event (tenant_id, run_id, kind, version, body)
  SELECT u.tenant_id, u.run_id, 'BarrierCancelled', u.version, jsonb_build_object('barrier', u.barrier_id, 'succeeded', u.succeeded, 'failed', u.failed, 'skipped', u.skipped) FROM u;
END $$;
