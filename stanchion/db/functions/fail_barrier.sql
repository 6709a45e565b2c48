-- purpose: a barrier that can't open any more fails; so does what it holds, or the whole run when that is not a branch's affair
-- transition: barrier waiting -> failed; held step pending -> skipped
-- fenced by: the caller
-- locks: the caller holds the barrier; then the held step, then the run
CREATE FUNCTION fail_barrier(b barrier, p_why text) RETURNS arrival[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_reason jsonb := jsonb_build_object('code', 'E-JOIN-20', 'what', format('the join before %s failed: %s', b.node, p_why), 'barrier', b.barrier_id);
BEGIN
  UPDATE barrier x SET state = 'failed', version = x.version + 1 WHERE x.barrier_id = b.barrier_id;
  DELETE FROM timer t WHERE t.target_id = b.barrier_id AND b.deadline_at IS NOT NULL;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) VALUES (b.tenant_id, b.run_id, 'BarrierFailed', b.version + 1, v_now, v_reason);
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  VALUES (outbox_partition_of(b.run_id), b.tenant_id, 'stanchion.events.v1', b.run_id::text, 'BarrierFailed', b.run_id::text,
          jsonb_build_object('run_id', b.run_id, 'barrier_id', b.barrier_id, 'node', b.node, 'why', p_why)::text);
  RETURN skip_step(b.step_id, b.run_id, v_reason, false);
END $$;
