-- purpose: in a retried run, the fan-out of the run before that stands where this one does: the same node in the same branch
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION fan_before(p_fan uuid) RETURNS uuid LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
DECLARE
  f step;
BEGIN
  SELECT * INTO f FROM step x WHERE x.step_id = p_fan;
  IF f.fan_id IS NULL THEN
    RETURN (SELECT s.step_id FROM run r, step s WHERE r.run_id = f.run_id AND r.tenant_id = f.tenant_id AND s.run_id = r.retry_of AND s.tenant_id = f.tenant_id AND s.kind = 'fan' AND s.fan_id IS NULL AND s.node = f.node ORDER BY s.round DESC, s.step_id DESC LIMIT 1);
  END IF;
  RETURN (SELECT s.step_id FROM step s WHERE s.fan_id = fan_before(f.fan_id) AND s.idx = f.idx AND s.tenant_id = f.tenant_id AND s.kind = 'fan' AND s.node = f.node ORDER BY s.round DESC, s.step_id DESC LIMIT 1);
END $$;
