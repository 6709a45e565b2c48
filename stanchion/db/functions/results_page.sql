-- purpose: the children that a join reads, in order of their index, a page at a time
-- transition: none
-- fenced by: the joining step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION results_page(p_step uuid, p_fence bigint, p_fan uuid, p_node text, p_after int, p_limit int) RETURNS TABLE (idx int, state text, body jsonb, blob bytea, error jsonb)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT c.idx, CASE WHEN c.state = 'succeeded' AND x.late THEN 'late' ELSE c.state END, CASE WHEN NOT x.late THEN x.body END, CASE WHEN NOT x.late THEN x.blob END,
         CASE WHEN c.state IN ('failed', 'skipped', 'cancelled') THEN (SELECT a.error FROM attempt a WHERE a.step_id = c.step_id AND a.error IS NOT NULL ORDER BY a.fence DESC LIMIT 1) END
  FROM step j
  JOIN LATERAL (SELECT s.* FROM step s WHERE s.fan_id = p_fan AND s.idx > p_after AND s.tenant_id = j.tenant_id AND s.kind = 'step' AND s.replaced_by IS NULL
                AND coalesce(s.answers, s.node) = p_node ORDER BY s.idx LIMIT p_limit) c ON true
  LEFT JOIN result x ON x.step_id = c.step_id AND x.tenant_id = j.tenant_id
  WHERE j.step_id = p_step AND j.fence = p_fence
  ORDER BY c.idx
$$;
