-- purpose: samples put together into longer spans: counts are added up, of levels the highest stays; up to `p_middle` from spans of five minutes, behind it from those of ten seconds
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION folded(p_tenant uuid, p_into int, p_from timestamptz, p_middle timestamptz, p_to timestamptz) RETURNS TABLE (tenant_id uuid, slot timestamptz, body jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH s AS MATERIALIZED (
    SELECT x.tenant_id, date_bin(p_into * interval '1 s', x.slot, '2000-01-01Z') AS slot, x.body
    FROM (VALUES (300, p_from, p_middle), (10, p_middle, p_to)) r(seconds, since, till), sample x
    WHERE x.seconds = r.seconds AND x.slot >= r.since AND x.slot < r.till AND (p_tenant IS NULL OR x.tenant_id = p_tenant)
  ), v AS (
    SELECT s.tenant_id, s.slot, p.part, e.key, CASE p.part WHEN 'counts' THEN sum(e.value::float8) ELSE max(e.value::float8) END AS value
    FROM s CROSS JOIN (VALUES ('counts'), ('levels')) p(part) CROSS JOIN LATERAL jsonb_each_text(s.body->p.part) e GROUP BY 1, 2, 3, 4
  )
  -- a span in which nothing happened was looked at all the same
  SELECT t.tenant_id, t.slot, jsonb_build_object('counts', coalesce(jsonb_object_agg(v.key, v.value) FILTER (WHERE v.part = 'counts'), '{}'), 'levels', coalesce(jsonb_object_agg(v.key, v.value) FILTER (WHERE v.part = 'levels'), '{}'))
  FROM (SELECT DISTINCT s.tenant_id, s.slot FROM s) t LEFT JOIN v ON v.tenant_id = t.tenant_id AND v.slot = t.slot GROUP BY 1, 2
$$;
