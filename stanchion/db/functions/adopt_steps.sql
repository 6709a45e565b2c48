-- purpose: give steps that were planned as settled the results that they take over; returns their arrivals where they are awaited, for the caller to spread
-- transition: none (they were born succeeded or skipped)
-- fenced by: the caller inserted them in this transaction
-- locks: only new rows
CREATE FUNCTION adopt_steps(p_steps jsonb, OUT o_arrivals arrival[], OUT o_done uuid[], OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  WITH p AS MATERIALIZED (
    SELECT x.tenant_id, x.step_id, x.adopt FROM jsonb_to_recordset(p_steps) AS x(tenant_id uuid, step_id uuid, adopt uuid) WHERE x.adopt IS NOT NULL
  ), r AS (
    INSERT INTO result (tenant_id, step_id, fence, body, blob) SELECT p.tenant_id, p.step_id, NULL, o.body, o.blob FROM p JOIN result o ON o.step_id = p.adopt AND o.tenant_id = p.tenant_id
  )
  SELECT coalesce(array_agg(p.step_id), '{}') INTO o_done FROM p;
  SELECT coalesce(array_agg(a), '{}') INTO o_arrivals FROM step s, unnest(arrivals_of(s, CASE s.state WHEN 'skipped' THEN 'skipped' ELSE 'ok' END)) a WHERE s.step_id = ANY (o_done);
  SELECT coalesce(array_agg(ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath), '{}') INTO o_after FROM step s WHERE s.step_id = ANY (o_done) AND s.counts;
END $$;
