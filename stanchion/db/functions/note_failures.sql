-- purpose: put failures into their groups and move the cursor behind them; false: somebody else was faster, nothing is counted
-- transition: none
-- fenced by: the cursor as it was read: each failure is counted once
-- locks: the cursor, then groups by id, then members by id
CREATE FUNCTION note_failures(p_from_xid numeric, p_from_id bigint, p_to_xid numeric, p_to_id bigint, p_rows jsonb) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE error_cursor c SET xid = p_to_xid::text::xid8, event_id = p_to_id WHERE c.xid = p_from_xid::text::xid8 AND c.event_id = p_from_id;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO error_group AS g (group_id, tenant_id, workflow, node, code, type, place, message, versions, count, failed, first_at, last_at, example, example_step_id)
  SELECT x.group_id, x.tenant_id, min(x.workflow), min(x.node), min(x.code), min(x.type), min(x.place), min(x.message), array_agg(DISTINCT x.version ORDER BY x.version), count(*), count(*) FILTER (WHERE x.final), min(x.at), max(x.at),
    (array_agg(x.error ORDER BY x.at DESC))[1], (array_agg(x.step_id ORDER BY x.at DESC))[1]
  FROM jsonb_to_recordset(p_rows) x(group_id uuid, tenant_id uuid, workflow text, node text, code text, type text, place text, message text, version int, final boolean, at timestamptz, error jsonb, step_id uuid)
  GROUP BY x.group_id, x.tenant_id ORDER BY x.group_id, x.tenant_id
  ON CONFLICT (group_id, tenant_id) DO UPDATE SET count = g.count + EXCLUDED.count, failed = g.failed + EXCLUDED.failed, first_at = least(g.first_at, EXCLUDED.first_at), last_at = greatest(g.last_at, EXCLUDED.last_at),
    example = EXCLUDED.example, example_step_id = EXCLUDED.example_step_id, versions = ARRAY(SELECT DISTINCT v FROM unnest(g.versions || EXCLUDED.versions) v ORDER BY v);
  INSERT INTO error_member AS m (run_id, step_id, tenant_id, group_id, fan_id, worker_id, failures, first_at, last_at)
  SELECT x.run_id, x.step_id, x.tenant_id, (array_agg(x.group_id ORDER BY x.at DESC, x.number DESC))[1], min(x.fan_id::text)::uuid, (array_agg(x.worker_id ORDER BY x.at DESC, x.number DESC))[1], count(*), min(x.at), max(x.at)
  FROM jsonb_to_recordset(p_rows) x(run_id uuid, step_id uuid, tenant_id uuid, group_id uuid, fan_id uuid, worker_id uuid, at timestamptz, number int)
  GROUP BY x.run_id, x.step_id, x.tenant_id ORDER BY x.run_id, x.step_id
  ON CONFLICT (run_id, step_id, tenant_id) DO UPDATE SET group_id = EXCLUDED.group_id, worker_id = EXCLUDED.worker_id, failures = m.failures + EXCLUDED.failures, last_at = EXCLUDED.last_at;
  RETURN true;
END $$;
