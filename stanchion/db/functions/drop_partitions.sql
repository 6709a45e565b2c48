-- purpose: drop months of events that are over for so long and that no run refers to any more; runs go first, with remove_history
-- transition: none
-- fenced by: no run that still stands has an event there, however old it is
-- locks: the event table, for 2 s at most; who comes too early tries again later
CREATE FUNCTION drop_partitions(p_older interval) RETURNS SETOF text LANGUAGE plpgsql SET search_path = stanchion, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  p record;
  v_upto timestamptz := clock() - p_older;
BEGIN
  FOR p IN
    SELECT x.relname::text AS name, x.starts AT TIME ZONE 'UTC' AS starts, (x.starts + interval '1 month') AT TIME ZONE 'UTC' AS ends
    FROM (SELECT c.relname, to_timestamp(c.relname::text, '"event_"YYYY_MM') AT TIME ZONE current_setting('TimeZone') AS starts
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'event'::regclass AND c.relname ~ '^event_[0-9]{4}_[0-9]{2}$') x
    ORDER BY x.relname
  LOOP
    CONTINUE WHEN p.ends > v_upto;
    CONTINUE WHEN EXISTS (SELECT FROM run r WHERE r.created_at < p.ends AND EXISTS (SELECT FROM event e WHERE e.run_id = r.run_id AND e.at >= p.starts AND e.at < p.ends));
    EXECUTE format('DROP TABLE %I', p.name);
    RETURN NEXT p.name;
  END LOOP;
  -- what was written before its month had a partition can only go row by row, once its run is gone
  DELETE FROM event e WHERE e.tableoid = 'event_default'::regclass AND e.at < v_upto AND NOT EXISTS (SELECT FROM run r WHERE r.run_id = e.run_id);
  IF FOUND THEN RETURN NEXT 'event_default'; END IF;
END $$;
