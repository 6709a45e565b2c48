-- purpose: whether a branch still matters to its run: a decided join took it in or waits for it, at every level outwards
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION is_needed(p_fan uuid, p_idx int) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_fan uuid := p_fan;
  v_idx int := p_idx;
BEGIN
  WHILE v_fan IS NOT NULL LOOP
    IF EXISTS (SELECT FROM barrier b WHERE b.fan_id = v_fan AND b.step_id IS NOT NULL) AND NOT EXISTS (
      SELECT FROM barrier b WHERE b.fan_id = v_fan AND b.step_id IS NOT NULL AND (b.state = 'waiting' OR (b.state = 'released' AND EXISTS (
        SELECT FROM step x WHERE x.fan_id = v_fan AND x.idx = v_idx AND b.barrier_id = ANY (x.feeds) AND x.state = 'succeeded' AND x.replaced_by IS NULL AND b.barrier_id <> ALL (coalesce(x.late_for, '{}')))))) THEN
      RETURN false;
    END IF;
    SELECT s.fan_id, s.idx INTO v_fan, v_idx FROM step s WHERE s.step_id = v_fan;
  END LOOP;
  RETURN true;
END $$;
