-- purpose: give steps that were planned as settled the results that they take over, and let them arrive where they are awaited
-- transition: none of its own (they were born succeeded or skipped); those of spread
-- fenced by: the caller inserted them in this transaction
-- locks: slots, barriers, held steps, runs, tasks
CREATE FUNCTION adopt_steps(p_steps jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ids uuid[];
  v_arrivals arrival[];
  v_settled uuid[];
BEGIN
  WITH p AS MATERIALIZED (
    SELECT x.tenant_id, x.step_id, x.adopt FROM jsonb_to_recordset(p_steps) AS x(tenant_id uuid, step_id uuid, adopt uuid) WHERE x.adopt IS NOT NULL
  ), r AS (
    INSERT INTO result (tenant_id, step_id, fence, body, blob) SELECT p.tenant_id, p.step_id, NULL, o.body, o.blob FROM p JOIN result o ON o.step_id = p.adopt AND o.tenant_id = p.tenant_id
  )
  SELECT array_agg(p.step_id) INTO v_ids FROM p;
  IF v_ids IS NULL THEN RETURN; END IF;
  SELECT array_agg(a), (SELECT array_agg(s.run_id) FROM step s WHERE s.step_id = ANY (v_ids) AND s.counts) INTO v_arrivals, v_settled
  FROM step s, unnest(arrivals_of(s, CASE s.state WHEN 'skipped' THEN 'skipped' ELSE 'ok' END)) a WHERE s.step_id = ANY (v_ids);
  PERFORM spread(v_arrivals, v_ids, ARRAY(SELECT ROW(u, 1, NULL, NULL, NULL)::aftermath FROM unnest(v_settled) u));
END $$;
