-- purpose: the samples of a tenant, or of the platform, in spans of so many seconds; a span that nobody sampled is missing, one in which the tenant had nothing is empty; `levelled` when what stood was looked at as well
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION read_samples(p_tenant uuid, p_into int, p_from timestamptz, p_to timestamptz) RETURNS TABLE (slot timestamptz, body jsonb, levelled boolean) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  -- what is folded already is read so, where that is fine enough
  WITH m AS MATERIALIZED (
    SELECT least(greatest(coalesce(CASE WHEN p_into >= 300 THEN max(x.slot) + interval '300 s' END, p_from), p_from), p_to) AS middle
    FROM sample x WHERE x.tenant_id = '00000000-0000-0000-0000-000000000000' AND x.seconds = 300
  ), looked AS (
    SELECT date_bin(p_into * interval '1 s', x.slot, '2000-01-01Z') AS slot, bool_or(x.body->'levels' ? 'slots') AS levelled FROM m, LATERAL (VALUES (300, p_from, m.middle), (10, m.middle, p_to)) r(seconds, since, till), sample x
    WHERE x.tenant_id = '00000000-0000-0000-0000-000000000000' AND x.seconds = r.seconds AND x.slot >= r.since AND x.slot < r.till GROUP BY 1
  )
  SELECT l.slot, f.body, l.levelled FROM looked l LEFT JOIN (SELECT y.slot, y.body FROM m, folded(p_tenant, p_into, p_from, m.middle, p_to) y) f ON f.slot = l.slot ORDER BY l.slot
$$;
