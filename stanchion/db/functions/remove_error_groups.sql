-- purpose: forget groups of errors that have not been seen for so long; their members went with the history of their tasks
-- transition: none; they go
-- fenced by: nothing
-- locks: the rows (skipping locked ones)
CREATE FUNCTION remove_error_groups(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM error_group g WHERE (g.group_id, g.tenant_id) IN (
    SELECT x.group_id, x.tenant_id FROM error_group x WHERE x.last_at < clock() - p_older ORDER BY x.last_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
