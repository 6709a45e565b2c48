-- purpose: remove samples that were kept for their time: those of ten seconds once they are folded, and spans of five minutes
-- transition: none
-- fenced by: nothing
-- locks: the samples' rows (skipping locked ones)
CREATE FUNCTION remove_samples(p_short interval, p_long interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_folded timestamptz := coalesce((SELECT max(x.slot) + interval '300 s' FROM sample x WHERE x.tenant_id = '00000000-0000-0000-0000-000000000000' AND x.seconds = 300), '-infinity');
  v_n int;
BEGIN
  DELETE FROM sample s WHERE (s.tenant_id, s.seconds, s.slot) IN (
    SELECT x.tenant_id, x.seconds, x.slot FROM sample x
    WHERE x.seconds = 10 AND x.slot < least(v_now - p_short, v_folded) OR x.seconds = 300 AND x.slot < v_now - p_long
    ORDER BY x.seconds, x.slot LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
