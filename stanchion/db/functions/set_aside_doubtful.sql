-- purpose: of steps that their holder hands in unfinished, those that have sent something of unknown fate wait for a probe instead
-- transition: step leased|running|reconciling -> unknown; attempt -> failed (it does not count), or released
-- fenced by: each step's own fence
-- locks: the caller holds the steps; their operations
CREATE FUNCTION set_aside_doubtful(p_worker uuid, p_steps uuid[], p_fences bigint[], p_errors jsonb[], p_delay_ms bigint) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  v_aside uuid[] := '{}';
  i int;
BEGIN
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (p_steps) AND x.doubts > 0 ORDER BY x.step_id LOOP
    i := array_position(p_steps, s.step_id);
    CONTINUE WHEN s.fence <> p_fences[i] OR s.state NOT IN ('leased', 'running', 'reconciling');
    PERFORM end_in_doubt(p_worker, s.step_id, s.fence, p_errors[i], p_delay_ms);
    v_aside := v_aside || s.step_id;
  END LOOP;
  RETURN v_aside;
END $$;
