-- purpose: what an idle worker may lease without an offer: the fact is in the table, and its message may be lost, late, or with a busy worker
-- transition: none
-- fenced by: nothing; lease decides
-- locks: none
CREATE FUNCTION find_ready(p_queues text[], p_definitions text[], p_tenants uuid[], p_older_ms int, p_limit int) RETURNS SETOF uuid LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT x.step_id FROM unnest(p_queues) q(queue), LATERAL (
    SELECT r.step_id FROM ready r
    WHERE r.queue = q.queue AND r.offered_at IS NOT NULL AND r.offered_at < clock() - p_older_ms * interval '1 ms'
      AND r.workflow || '@' || r.workflow_version = ANY (p_definitions) AND (p_tenants IS NULL OR r.tenant_id = ANY (p_tenants))
      AND (SELECT z.since FROM queue_pause z WHERE z.queue = r.queue AND z.tenant_id = r.tenant_id) IS NULL
      AND (SELECT may_be_leased(s.state, s.kind, u.state, u.paused_at) FROM step s, run u WHERE s.step_id = r.step_id AND u.run_id = s.run_id)
    ORDER BY r.offered_at LIMIT p_limit) x
  LIMIT p_limit
$$;
