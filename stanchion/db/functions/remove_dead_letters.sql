-- purpose: remove parked messages that are too old, and of each owner (a tenant, or nobody) the oldest beyond so many rows or bytes
-- transition: none
-- fenced by: nothing: a redrive that runs goes on with what is left
-- locks: the rows (skipping locked ones: somebody sends them again)
CREATE FUNCTION remove_dead_letters(p_older interval, p_rows int, p_bytes bigint, p_limit int) RETURNS TABLE (expired int, crowded int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_before timestamptz := clock() - p_older;
BEGIN
  RETURN QUERY
  WITH sized AS (
    SELECT d.dead_letter_id, d.at, row_number() OVER newest AS place,
      sum(coalesce(octet_length(d.key), 0) + coalesce(octet_length(d.value), 0) + pg_column_size(d.headers) + octet_length(d.reason)) OVER newest AS bytes
    FROM dead_letter d WINDOW newest AS (PARTITION BY d.tenant_id ORDER BY d.dead_letter_id DESC ROWS UNBOUNDED PRECEDING)
  ), gone AS (
    DELETE FROM dead_letter x WHERE x.dead_letter_id IN (
      SELECT y.dead_letter_id FROM dead_letter y JOIN sized s USING (dead_letter_id) WHERE s.at < v_before OR s.place > p_rows OR s.bytes > p_bytes
      ORDER BY y.dead_letter_id LIMIT p_limit FOR UPDATE OF y SKIP LOCKED)
    RETURNING x.at < v_before AS old
  )
  SELECT (count(*) FILTER (WHERE g.old))::int, (count(*) FILTER (WHERE NOT g.old))::int FROM gone g;
END $$;
