-- purpose: ask a worker to stop leasing and end after what it runs
-- transition: none
-- fenced by: nothing
-- locks: the worker's row
CREATE FUNCTION drain_worker(p_worker uuid) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE worker SET drain_requested = true WHERE worker_id = p_worker AND state <> 'gone' RETURNING true
$$;
