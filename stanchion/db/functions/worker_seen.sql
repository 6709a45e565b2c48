-- purpose: a worker's presence: what it serves, how busy it is, how far its clock is off; tells it when it is asked to drain
-- transition: none
-- fenced by: nothing: presence is information, leases are the law
-- locks: for a new worker the advisory lock on putting aside; the worker's row; ready rows that were put aside for want of a worker (skipping locked ones)
CREATE FUNCTION worker_seen(p_worker uuid, p_name text, p_host text, p_pid int, p_queues text[], p_workflows text[], p_slots int, p_running int, p_state text, p_clock timestamptz, p_tenants uuid[]) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_known boolean := EXISTS (SELECT FROM worker w WHERE w.worker_id = p_worker AND is_alive(w));
  v_drain boolean;
BEGIN
  IF p_state = 'active' AND NOT v_known THEN PERFORM pg_advisory_xact_lock(hashtextextended('put aside', 0)); END IF;
  INSERT INTO worker AS w (worker_id, name, host, pid, queues, workflows, slots, running, state, clock_offset_ms, started_at, seen_at, tenants)
  VALUES (p_worker, p_name, p_host, p_pid, p_queues, p_workflows, p_slots, p_running, p_state, greatest(-2e9, least(2e9, extract(epoch FROM p_clock - v_now) * 1000))::int, v_now, v_now, p_tenants)
  ON CONFLICT (worker_id) DO UPDATE SET queues = p_queues, workflows = p_workflows, slots = p_slots, running = p_running, state = p_state,
    clock_offset_ms = greatest(-2e9, least(2e9, extract(epoch FROM p_clock - v_now) * 1000))::int, seen_at = v_now, tenants = p_tenants
  RETURNING w.drain_requested INTO v_drain;
  IF p_state = 'active' AND NOT v_known THEN
    -- it is new, or was away: what waited for one like it is offered now
    UPDATE ready x SET offered_at = NULL, offers = 0 WHERE x.step_id = ANY (ARRAY(
      SELECT r.step_id FROM ready r WHERE r.queue = ANY (p_queues) AND r.offered_at > v_now AND r.workflow || '@' || r.workflow_version = ANY (p_workflows) AND (p_tenants IS NULL OR r.tenant_id = ANY (p_tenants)) LIMIT 20000 FOR UPDATE SKIP LOCKED));
  END IF;
  RETURN v_drain;
END $$;
