-- purpose: write the samples of one span of ten seconds that is over and was not sampled: a row for each tenant that had anything, and one for the platform
-- transition: none
-- fenced by: the platform's row: its primary key lets one of many writers through, the others find it there
-- locks: only new rows
CREATE FUNCTION take_sample(p_margin interval, p_back int, p_attempts int) RETURNS timestamptz LANGUAGE plpgsql SET search_path = stanchion, pg_temp SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
  v_platform uuid := '00000000-0000-0000-0000-000000000000';
  v_span interval := interval '10 s';
  v_newest timestamptz := date_bin(v_span, clock() - p_margin, '2000-01-01Z') - v_span;
  v_slot timestamptz;
BEGIN
  SELECT g.slot INTO v_slot FROM generate_series(v_newest - p_back * v_span, v_newest, v_span) g(slot)
  WHERE NOT EXISTS (SELECT FROM sample x WHERE x.tenant_id = v_platform AND x.seconds = 10 AND x.slot = g.slot) ORDER BY 1 LIMIT 1;
  IF v_slot IS NULL THEN RETURN NULL; END IF;
  INSERT INTO sample (tenant_id, seconds, slot, body) VALUES (v_platform, 10, v_slot, '{}') ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN NULL; END IF;
  WITH counts AS MATERIALIZED (
    SELECT * FROM sample_counts(v_slot, v_slot + v_span)
  ), levels AS MATERIALIZED (
    SELECT * FROM sample_latencies(v_slot, v_slot + v_span, p_attempts)
    -- what stands now says nothing about a span that is long over
    UNION ALL SELECT * FROM sample_levels() WHERE v_slot = v_newest
  ), platform AS MATERIALIZED (
    SELECT * FROM sample_platform() WHERE v_slot = v_newest
  ), every AS (
    SELECT 'counts' AS part, c.* FROM counts c
    UNION ALL SELECT 'levels', l.* FROM levels l
    UNION ALL SELECT 'counts', v_platform, c.name, sum(c.value) FROM counts c GROUP BY c.name
    UNION ALL SELECT 'levels', v_platform, l.name, CASE WHEN l.name ~ '_age_seconds' THEN max(l.value) ELSE sum(l.value) END FROM levels l WHERE l.name !~ '_p[0-9]+$' GROUP BY l.name
    UNION ALL SELECT 'levels', v_platform, p.name, p.value FROM platform p
    -- what left the outbox since the sample before; a server that began to count anew says nothing once
    UNION ALL SELECT 'counts', v_platform, 'relay_messages', p.value - b.value FROM platform p, LATERAL (
      SELECT (x.body->'levels'->>'outbox_left_total')::float8 AS value FROM sample x WHERE x.tenant_id = v_platform AND x.seconds = 10 AND x.slot = v_slot - v_span) b
    WHERE p.name = 'outbox_left_total' AND p.value >= b.value
  )
  INSERT INTO sample AS x (tenant_id, seconds, slot, body)
  SELECT e.tenant_id, 10, v_slot, jsonb_build_object('counts', coalesce(jsonb_object_agg(e.name, e.value) FILTER (WHERE e.part = 'counts'), '{}'), 'levels', coalesce(jsonb_object_agg(e.name, e.value) FILTER (WHERE e.part = 'levels'), '{}'))
  FROM every e GROUP BY e.tenant_id
  ON CONFLICT (tenant_id, seconds, slot) DO UPDATE SET body = excluded.body;
  RETURN v_slot;
END $$;
