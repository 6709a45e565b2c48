-- purpose: ask a worker to stop leasing and end after what it runs; a tenant asks only one that serves nobody else
-- transition: none
-- fenced by: nothing
-- locks: the worker's row; the audit chain last
CREATE FUNCTION drain_worker(p_worker uuid, p_only_of uuid, p_tenant uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE worker SET drain_requested = true WHERE worker_id = p_worker AND state <> 'gone' AND (p_only_of IS NULL OR tenants <@ ARRAY[p_only_of]);
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'worker.drain', p_worker::text, '{}');
  RETURN true;
END $$;
