-- purpose: how long steps of a node take, smoothed; sizes what is leased ahead and how many steps an offer names
-- transition: none
-- fenced by: nothing: losing it costs nothing
-- locks: the nodes' rows in key order
CREATE FUNCTION note_durations(p_workflows text[], p_versions int[], p_nodes text[], p_means_ms bigint[], p_samples bigint[]) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO node_stat AS n (workflow, version, node, mean_ms, samples)
  SELECT x.w, x.v, x.n, x.m, x.s FROM unnest(p_workflows, p_versions, p_nodes, p_means_ms, p_samples) x(w, v, n, m, s) ORDER BY 1, 2, 3
  ON CONFLICT (workflow, version, node) DO UPDATE SET mean_ms = (n.mean_ms * 3 + excluded.mean_ms) / 4, samples = n.samples + excluded.samples, updated_at = clock()
$$;
