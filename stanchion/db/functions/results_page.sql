-- purpose: the children that a join reads, in order of their index, a page at a time; what settled after it had opened is `late` for good, what it opened with as failed stays so when it is reopened
-- transition: none
-- fenced by: the joining step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION results_page(p_step uuid, p_fence bigint, p_fan uuid, p_node text, p_after int, p_limit int) RETURNS TABLE (idx int, state text, body jsonb, blob bytea, error jsonb)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT c.idx, CASE WHEN c.was_failed IS NOT NULL THEN 'failed' WHEN c.late THEN 'late' WHEN c.spoiled THEN 'failed' ELSE c.state END, CASE WHEN NOT c.late AND c.was_failed IS NULL THEN x.body END, CASE WHEN NOT c.late AND c.was_failed IS NULL THEN x.blob END,
         CASE WHEN c.was_failed IS NOT NULL THEN nullif(c.was_failed, 'null')
              WHEN c.late THEN NULL
              WHEN c.state = 'failed' THEN error_of(c.step_id)
              -- it never ran since something before it in its branch failed: that one's error, or that of an inner join
              WHEN c.spoiled THEN coalesce((SELECT error_of(s.step_id) FROM step s WHERE s.fan_id = p_fan AND s.idx = c.idx AND s.tenant_id = c.tenant_id AND s.state = 'failed' ORDER BY s.updated_at LIMIT 1),
                jsonb_build_object('code', 'E-JOIN-20', 'what', 'a step before it in its branch failed')) END
  FROM step j
  JOIN LATERAL (SELECT s.step_id, s.tenant_id, s.idx, s.state, s.spoiled, coalesce(b.barrier_id = ANY (s.late_for), false) AS late, s.failed_for -> b.barrier_id::text AS was_failed FROM step s, gather_of(j, p_fan) b
                WHERE s.fan_id = p_fan AND s.idx > p_after AND s.tenant_id = j.tenant_id AND s.kind = 'step' AND s.replaced_by IS NULL AND coalesce(s.answers, s.node) = p_node ORDER BY s.idx LIMIT p_limit) c ON true
  -- the limit keeps this one index probe a row: joined freely, all results of the database were read for each page
  LEFT JOIN LATERAL (SELECT r.body, r.blob FROM result r WHERE r.step_id = c.step_id AND r.tenant_id = c.tenant_id LIMIT 1) x ON true
  WHERE j.step_id = p_step AND j.fence = p_fence
  ORDER BY c.idx
$$;
