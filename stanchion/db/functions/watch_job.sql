-- purpose: what became of the last targets that a job reopened or retried: how many came to an end since, and how many of these have failed again
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION watch_job(p_tenant uuid, p_job uuid, p_limit int) RETURNS TABLE (acted int, settled int, failed int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT count(*)::int, count(*) FILTER (WHERE coalesce(s.state, r.state) IN ('succeeded', 'failed', 'cancelled', 'skipped'))::int, count(*) FILTER (WHERE coalesce(s.state, r.state) = 'failed')::int
  FROM (SELECT * FROM job_target x WHERE x.job_id = p_job AND x.tenant_id = p_tenant AND x.outcome = 'done' ORDER BY x.at DESC LIMIT p_limit) t
  LEFT JOIN run r ON r.run_id = t.made_id AND r.tenant_id = p_tenant
  LEFT JOIN step s ON t.made_id IS NULL AND s.step_id = t.target_id AND s.tenant_id = p_tenant
$$;
