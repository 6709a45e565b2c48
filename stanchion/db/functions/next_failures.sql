-- purpose: the next failures behind the cursor, below the oldest running transaction, so that none is skipped; with them where the cursor stands
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION next_failures(p_limit int) RETURNS TABLE (from_xid numeric, from_id bigint, xid numeric, event_id bigint, tenant_id uuid, run_id uuid, step_id uuid, fan_id uuid, workflow text, version int, node text, worker_id uuid, final boolean, at timestamptz, error jsonb)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT c.xid::text::numeric, c.event_id, e.xid::text::numeric, e.event_id, e.tenant_id, e.run_id, e.step_id, s.fan_id, s.workflow, s.workflow_version, s.node, a.worker_id, e.kind = 'StepFailed', e.at,
    CASE WHEN jsonb_typeof(e.body->'error') = 'object' THEN e.body->'error' ELSE e.body - 'step' END
  FROM error_cursor c CROSS JOIN LATERAL (
    SELECT v.* FROM event v WHERE v.kind IN ('StepFailed', 'StepRetryScheduled') AND (v.xid, v.event_id) > (c.xid, c.event_id) AND v.xid < event_xid(pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY v.xid, v.event_id LIMIT p_limit) e
  LEFT JOIN step s ON s.step_id = e.step_id AND s.tenant_id = e.tenant_id
  LEFT JOIN attempt a ON a.step_id = e.step_id AND a.fence = e.fence AND a.tenant_id = e.tenant_id
  ORDER BY e.xid, e.event_id
$$;
