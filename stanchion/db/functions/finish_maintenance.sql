-- purpose: a job is done, goes on later, or failed and is tried again later; false: another worker has it
-- transition: maintenance job running -> done|due|failed
-- fenced by: the job's fence
-- locks: the job
CREATE FUNCTION finish_maintenance(p_kind text, p_key text, p_tenant uuid, p_fence bigint, p_outcome text, p_result jsonb, p_wait_ms bigint, p_tries int) RETURNS text LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH o AS (
    SELECT j.kind, j.key, j.tenant_id, CASE p_outcome WHEN 'done' THEN 'done' WHEN 'failed' THEN CASE WHEN j.tries + 1 >= p_tries THEN 'failed' ELSE 'due' END ELSE 'due' END AS state
    FROM maintenance_job j WHERE j.kind = p_kind AND j.key = p_key AND j.tenant_id = p_tenant AND j.fence = p_fence AND j.state = 'running' FOR NO KEY UPDATE
  )
  UPDATE maintenance_job j SET state = o.state, result = p_result, lease_until = NULL, tries = CASE p_outcome WHEN 'failed' THEN j.tries + 1 ELSE 0 END,
    due_at = CASE o.state WHEN 'due' THEN clock() + p_wait_ms * interval '1 ms' ELSE j.due_at END, finished_at = CASE WHEN o.state <> 'due' THEN clock() END
  FROM o WHERE j.kind = o.kind AND j.key = o.key AND j.tenant_id = o.tenant_id
  RETURNING j.state
$$;
