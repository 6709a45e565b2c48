-- purpose: forget messages that were applied so long ago that no broker delivers them again
-- transition: none
-- fenced by: nothing
-- locks: the inbox's rows
CREATE FUNCTION trim_inbox(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM inbox i WHERE i.ctid = ANY (ARRAY(SELECT x.ctid FROM inbox x WHERE x.at < clock() - p_older ORDER BY x.at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
