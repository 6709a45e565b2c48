-- purpose: forget workers that ended, or that fell silent, so long ago
-- transition: none
-- fenced by: nothing: presence is information, and one that reports again is there again
-- locks: the workers' rows (skipping locked ones)
CREATE FUNCTION remove_workers(p_gone interval, p_silent interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int;
BEGIN
  DELETE FROM worker w WHERE w.worker_id IN (
    SELECT x.worker_id FROM worker x WHERE x.seen_at < v_now - CASE x.state WHEN 'gone' THEN p_gone ELSE p_silent END
    ORDER BY x.worker_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
