-- purpose: partitions of events for this month and the next ones, made before the first event of them is written
-- transition: none
-- fenced by: nothing: what exists is left alone
-- locks: the event table's list of partitions, for 2 s at most; who comes too early tries again later
CREATE FUNCTION make_partitions(p_months int) RETURNS SETOF text LANGUAGE plpgsql SET search_path = stanchion, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  v_from timestamptz;
  v_to timestamptz;
  v_name text;
BEGIN
  FOR n IN 0 .. p_months LOOP
    v_from := (date_trunc('month', clock() AT TIME ZONE 'UTC') + n * interval '1 month') AT TIME ZONE 'UTC';
    v_to := (v_from AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    v_name := to_char(v_from AT TIME ZONE 'UTC', '"event_"YYYY_MM');
    CONTINUE WHEN to_regclass('stanchion.' || v_name) IS NOT NULL;
    -- what was written before its month had a partition stands in the default one, and the month stays there
    CONTINUE WHEN EXISTS (SELECT FROM event e WHERE e.at >= v_from AND e.at < v_to);
    EXECUTE format('CREATE TABLE %I PARTITION OF event FOR VALUES FROM (%L) TO (%L)', v_name, v_from, v_to);
    PERFORM guard_partition(v_name);
    RETURN NEXT v_name;
  END LOOP;
END $$;
