-- purpose: the tasks of submissions that were accepted before, by key or message id as submit finds them, and whether these say the same
-- transition: none
-- fenced by: nothing; submit decides on what is new
-- locks: none
CREATE FUNCTION find_submitted(p_tenants uuid[], p_keys text[], p_messages text[], p_digests bytea[]) RETURNS TABLE (ord int, outcome text, task_id uuid, run_id uuid, state text)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT x.n::int - 1, CASE WHEN t.payload_digest = x.digest THEN 'duplicate' ELSE 'conflict' END, t.task_id, t.run_id, t.state
  FROM unnest(p_tenants, p_keys, p_messages, p_digests) WITH ORDINALITY x(tenant_id, key, message, digest, n),
  LATERAL (SELECT y.* FROM task y WHERE y.tenant_id = x.tenant_id AND y.task_id = coalesce(
    (SELECT k.task_id FROM task k WHERE k.tenant_id = x.tenant_id AND k.idempotency_key = x.key),
    (SELECT i.subject FROM inbox i WHERE i.message_id = x.message AND i.consumer = 'task-service' AND i.tenant_id = x.tenant_id))) t
  ORDER BY x.n
$$;
