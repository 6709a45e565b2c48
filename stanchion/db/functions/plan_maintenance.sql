-- purpose: what maintenance is due: derives the periodic jobs of this moment, gives up those that keep killing their worker, and lists what waits for one
-- transition: maintenance job: born due; running -> failed when its workers were lost too often
-- fenced by: the primary key: one row a kind and period, however many derive it
-- locks: new rows; rows of lost workers by kind and key (skipping locked ones)
CREATE FUNCTION plan_maintenance(p_kinds text[], p_seconds int[], p_tries int, p_limit int) RETURNS TABLE (kind text, key text, tenant_id uuid, fence bigint, offer int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock();
  v_nobody uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
  UPDATE maintenance_job j SET state = 'failed', finished_at = v_now, lease_until = NULL, result = coalesce(j.result, '{}') || '{"error": {"code": "E-MAINT-03", "what": "its workers were lost in the middle of it"}}'
  WHERE (j.kind, j.key, j.tenant_id) IN (
    SELECT x.kind, x.key, x.tenant_id FROM maintenance_job x WHERE x.finished_at IS NULL AND x.state = 'running' AND x.lease_until < v_now AND x.tries + 1 >= p_tries
    ORDER BY x.kind, x.key LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
  -- a period is named by its start; while an earlier one of its kind is open there is nothing to add: it does the same work
  INSERT INTO maintenance_job (kind, key, tenant_id, due_at)
  SELECT p.kind, p.key, v_nobody, v_now
  FROM (SELECT u.kind, to_char(u.starts AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS key
        FROM (SELECT w.kind, to_timestamp(floor(extract(epoch FROM v_now) / w.seconds) * w.seconds) AS starts FROM unnest(p_kinds, p_seconds) w(kind, seconds)) u) p
  WHERE NOT EXISTS (SELECT FROM maintenance_job j WHERE j.kind = p.kind AND j.tenant_id = v_nobody AND (j.key = p.key OR j.finished_at IS NULL))
  ON CONFLICT DO NOTHING;
  RETURN QUERY
  -- what nobody claims is offered again after 1, 3, 7, 15 minutes: an entry of the queue may be lost, stuck or forged
  SELECT j.kind, j.key, j.tenant_id, j.fence, floor(log(2, 1 + greatest(0, extract(epoch FROM v_now - coalesce(j.lease_until, j.due_at))) / 60))::int
  FROM maintenance_job j
  WHERE j.finished_at IS NULL AND ((j.state = 'due' AND j.due_at <= v_now) OR (j.state = 'running' AND j.lease_until < v_now))
  ORDER BY j.due_at LIMIT p_limit;
END $$;
