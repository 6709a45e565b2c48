-- purpose: one worker takes a job, by the fence that it was offered with; a second entry of the queue for it finds another fence
-- transition: maintenance job due -> running, or running -> running when its lease has expired
-- fenced by: the fence of the offer
-- locks: the job
CREATE FUNCTION claim_maintenance(p_kind text, p_key text, p_tenant uuid, p_fence bigint, p_worker text, p_lease_ms int) RETURNS TABLE (fence bigint, request jsonb, result jsonb) LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE maintenance_job j SET state = 'running', fence = j.fence + 1, worker = p_worker, started_at = coalesce(j.started_at, clock()), lease_until = clock() + p_lease_ms * interval '1 ms',
    tries = j.tries + CASE WHEN j.state = 'running' THEN 1 ELSE 0 END
  WHERE j.kind = p_kind AND j.key = p_key AND j.tenant_id = p_tenant AND j.fence = p_fence
    AND ((j.state = 'due' AND j.due_at <= clock()) OR (j.state = 'running' AND j.lease_until < clock()))
  RETURNING j.fence, j.request, j.result
$$;
