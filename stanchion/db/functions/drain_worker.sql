-- purpose: ask a worker to stop leasing and end after what it runs; a tenant asks only one that serves nobody else
-- transition: none
-- fenced by: nothing
-- locks: the worker's row
CREATE FUNCTION drain_worker(p_worker uuid, p_only_of uuid) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE worker SET drain_requested = true WHERE worker_id = p_worker AND state <> 'gone' AND (p_only_of IS NULL OR tenants <@ ARRAY[p_only_of]) RETURNING true
$$;
