-- purpose: a worker's presence: what it serves, how busy it is, how far its clock is off; tells it when it is asked to drain
-- transition: none
-- fenced by: nothing: presence is information, leases are the law
-- locks: the worker's row
CREATE FUNCTION worker_seen(p_worker uuid, p_name text, p_host text, p_pid int, p_queues text[], p_workflows text[], p_slots int, p_running int, p_state text, p_clock timestamptz) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO worker AS w (worker_id, name, host, pid, queues, workflows, slots, running, state, clock_offset_ms, started_at, seen_at)
  VALUES (p_worker, p_name, p_host, p_pid, p_queues, p_workflows, p_slots, p_running, p_state, greatest(-2e9, least(2e9, extract(epoch FROM p_clock - clock()) * 1000))::int, clock(), clock())
  ON CONFLICT (worker_id) DO UPDATE SET queues = p_queues, workflows = p_workflows, slots = p_slots, running = p_running, state = p_state,
    clock_offset_ms = greatest(-2e9, least(2e9, extract(epoch FROM p_clock - clock()) * 1000))::int, seen_at = clock()
  RETURNING w.drain_requested
$$;
