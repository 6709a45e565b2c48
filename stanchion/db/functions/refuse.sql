-- purpose: keep what a stale writer tried: it changed nothing, and it is on record
-- transition: none
-- fenced by: nothing: this is what happens to those who are not the holder
-- locks: none
CREATE FUNCTION refuse(p_worker uuid, p_steps uuid[], p_fences bigint[], p_attempted text) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO refused_write (tenant_id, run_id, step_id, worker_id, fence, current_fence, attempted, why)
  SELECT s.tenant_id, s.run_id, s.step_id, p_worker, p_fences[array_position(p_steps, s.step_id)], s.fence, p_attempted,
         CASE WHEN s.fence > p_fences[array_position(p_steps, s.step_id)] THEN format('superseded: fence %s, current %s', p_fences[array_position(p_steps, s.step_id)], s.fence)
              ELSE format('the step is %s', s.state) END
  FROM step s WHERE s.step_id = ANY (p_steps);
END $$;
