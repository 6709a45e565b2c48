-- purpose: one cheap look for the orchestrator's loops: which of them have something to do
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION work_waiting() RETURNS TABLE (expansions boolean, timers boolean, leases boolean, offers boolean, runs uuid[], barriers uuid[], deliveries boolean, aside int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  -- (SELECT clock()) is evaluated once, so that it can bound an index scan; a bare clock() would be compared with every row
  SELECT EXISTS (SELECT FROM timer t WHERE t.due_at <= (SELECT clock()) AND t.kind = 'expand' AND t.target_id <> ALL ((SELECT aside('expansion'))::uuid[]) AND (SELECT r.state IN ('created', 'running') FROM run r WHERE r.run_id = t.run_id)),
    EXISTS (SELECT FROM timer t WHERE t.due_at <= (SELECT clock()) AND t.kind <> 'expand' AND t.timer_id <> ALL ((SELECT aside('timer'))::uuid[])),
    EXISTS (SELECT FROM attempt a WHERE a.ended_at IS NULL AND a.lease_until < (SELECT clock()) AND a.step_id <> ALL ((SELECT aside('lease'))::uuid[])),
    EXISTS (SELECT FROM ready r WHERE r.offered_at IS NULL) OR EXISTS (SELECT FROM ready r WHERE r.offered_at < (SELECT clock()) - interval '5 s'),
    -- at random: a hundred runs whose steps don't stop must not keep the others from their end
    ARRAY(SELECT r.run_id FROM run r WHERE r.state = 'cancelling' AND r.run_id <> ALL ((SELECT aside('run'))::uuid[]) ORDER BY random() LIMIT 100),
    ARRAY(SELECT b.barrier_id FROM barrier b WHERE b.kind = 'gather' AND b.state <> 'waiting' AND (NOT b.closed OR b.sweep_at IS NOT NULL) AND (b.closed OR b.rest = 'cancel' OR b.on_failed = 'hold')
      AND (b.sweep_at IS NULL OR b.sweep_at <= (SELECT clock())) AND b.barrier_id <> ALL ((SELECT aside('barrier'))::uuid[]) LIMIT 100),
    EXISTS (SELECT FROM webhook_delivery d WHERE d.state = 'due' AND d.due_at <= (SELECT clock())),
    (SELECT count(*)::int FROM set_aside x WHERE x.retry_at > (SELECT clock()))
$$;
