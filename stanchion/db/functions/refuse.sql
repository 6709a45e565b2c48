-- purpose: keep what a stale writer tried: it changed nothing, and it is on record; who only asks again, since the answer got lost, is told that it was done
-- transition: none
-- fenced by: nothing: this is what happens to those who are not the holder
-- locks: none
CREATE FUNCTION refuse(p_worker uuid, p_steps uuid[], p_fences bigint[], p_done uuid[], p_attempted text, p_applied text) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_again uuid[];
  v_stale uuid[];
BEGIN
  SELECT array_agg(x.u) FILTER (WHERE x.applied), array_agg(x.u) FILTER (WHERE NOT x.applied) INTO v_again, v_stale
  FROM (SELECT u, EXISTS (SELECT FROM attempt a WHERE a.step_id = u AND a.fence = p_fences[array_position(p_steps, u)] AND a.worker_id = p_worker AND a.state = p_applied) AS applied
        FROM unnest(p_steps) u WHERE u <> ALL (coalesce(p_done, '{}'))) x;
  INSERT INTO refused_write (tenant_id, run_id, step_id, worker_id, fence, current_fence, attempted, why)
  SELECT s.tenant_id, s.run_id, s.step_id, p_worker, p_fences[array_position(p_steps, s.step_id)], s.fence, p_attempted,
         CASE WHEN s.fence <> p_fences[array_position(p_steps, s.step_id)] THEN format('superseded: fence %s, current %s', p_fences[array_position(p_steps, s.step_id)], s.fence)
              ELSE format('the step is %s', s.state) END
  FROM step s WHERE s.step_id = ANY (v_stale);
  RETURN coalesce(v_again, '{}');
END $$;
