-- purpose: which node each of these steps is
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION nodes_of(p_steps uuid[]) RETURNS TABLE (step_id uuid, node text) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.step_id, s.node FROM step s WHERE s.step_id = ANY (p_steps)
$$;
