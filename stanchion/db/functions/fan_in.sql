-- purpose: the fan-out of another run that stands where this one does: the same node in the same branch, at every level
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION fan_in(p_run uuid, p_fan uuid) RETURNS uuid LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
DECLARE
  f step;
  v_outer uuid;
BEGIN
  SELECT * INTO f FROM step x WHERE x.step_id = p_fan;
  IF f.fan_id IS NULL THEN
    RETURN (SELECT s.step_id FROM step s WHERE s.run_id = p_run AND s.tenant_id = f.tenant_id AND s.kind = 'fan' AND s.fan_id IS NULL AND s.node = f.node ORDER BY s.round DESC, s.step_id DESC LIMIT 1);
  END IF;
  v_outer := fan_in(p_run, f.fan_id);
  RETURN (SELECT s.step_id FROM step s WHERE s.fan_id = v_outer AND s.idx = f.idx AND s.tenant_id = f.tenant_id AND s.kind = 'fan' AND s.node = f.node ORDER BY s.round DESC, s.step_id DESC LIMIT 1);
END $$;
