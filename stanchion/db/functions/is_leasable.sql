-- purpose: whether any worker could lease a ready step now: its run goes on, nobody paused its queue, and a worker that was seen lately serves its queue and version
-- transition: none
-- fenced by: nothing; lease decides
-- locks: none
CREATE FUNCTION is_leasable(r ready) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT EXISTS (SELECT FROM step s, run u WHERE s.step_id = r.step_id AND s.tenant_id = r.tenant_id AND u.run_id = s.run_id AND u.tenant_id = s.tenant_id AND may_be_leased(s.state, s.kind, u.state, u.paused_at))
    AND NOT EXISTS (SELECT FROM queue_pause q WHERE q.queue = r.queue AND q.tenant_id = r.tenant_id)
    AND EXISTS (SELECT FROM worker w WHERE is_alive(w) AND r.queue = ANY (w.queues) AND (w.tenants IS NULL OR r.tenant_id = ANY (w.tenants)) AND r.workflow || '@' || r.workflow_version = ANY (w.workflows))
$$;
