-- purpose: set aside for a while, longer each time, one item of upkeep that the database refuses, so that no batch meets it meanwhile
-- transition: none
-- fenced by: nothing
-- locks: the row in set_aside
CREATE FUNCTION put_aside(p_kind text, p_target uuid, p_code text, p_why text) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_tries int;
BEGIN
  INSERT INTO set_aside AS x (tenant_id, kind, target_id, run_id, code, why, tries, since, retry_at)
  SELECT o.tenant_id, p_kind, p_target, o.run_id, p_code, left(p_why, 1000), 1, v_now, v_now + interval '30 s' FROM (
    SELECT s.tenant_id, s.run_id FROM step s WHERE p_kind IN ('lease', 'expansion') AND s.step_id = p_target
    UNION ALL SELECT t.tenant_id, t.run_id FROM timer t WHERE p_kind = 'timer' AND t.timer_id = p_target
    UNION ALL SELECT b.tenant_id, b.run_id FROM barrier b WHERE p_kind = 'barrier' AND b.barrier_id = p_target
    UNION ALL SELECT r.tenant_id, r.run_id FROM run r WHERE p_kind = 'run' AND r.run_id = p_target
    UNION ALL SELECT a.tenant_id, a.run_id FROM attempt a WHERE p_kind = 'lease' AND a.step_id = p_target) o LIMIT 1
  ON CONFLICT (target_id, kind, tenant_id) DO UPDATE SET code = excluded.code, why = excluded.why, tries = least(x.tries + 1, 1000), retry_at = v_now + least(interval '30 s' * 2 ^ least(x.tries, 10), interval '1 h')
  RETURNING x.tries INTO v_tries;
  -- what was not set aside again has gone well since, or is gone
  DELETE FROM set_aside x WHERE x.retry_at < v_now - interval '1 day';
  RETURN coalesce(v_tries, 0);
END $$;
