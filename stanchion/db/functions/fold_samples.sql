-- purpose: put samples of ten seconds together into spans of five minutes, the oldest that is not folded first, and no further than an hour at a time
-- transition: none
-- fenced by: the primary key: a span that was folded stays as it is
-- locks: only new rows
CREATE FUNCTION fold_samples(p_settled interval) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_platform uuid := '00000000-0000-0000-0000-000000000000';
  v_span interval := interval '300 s';
  v_to timestamptz := date_bin(v_span, clock() - p_settled, '2000-01-01Z');
  v_from timestamptz := coalesce((SELECT max(x.slot) + v_span FROM sample x WHERE x.tenant_id = v_platform AND x.seconds = 300), '-infinity');
  v_n int;
BEGIN
  v_from := date_bin(v_span, (SELECT min(x.slot) FROM sample x WHERE x.tenant_id = v_platform AND x.seconds = 10 AND x.slot >= v_from), '2000-01-01Z');
  IF v_from IS NULL OR v_from >= v_to THEN RETURN 0; END IF;
  INSERT INTO sample (tenant_id, seconds, slot, body)
  SELECT f.tenant_id, 300, f.slot, f.body FROM folded(NULL, 300, v_from, v_from, least(v_to, v_from + interval '1 hour')) f ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
