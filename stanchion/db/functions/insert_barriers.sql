-- purpose: insert barriers with their slots and deadlines; those that expect nothing, or need more than there can be, are returned to be decided at once
-- transition: birth: barrier waiting
-- fenced by: the caller
-- locks: only new rows
CREATE FUNCTION insert_barriers(p_barriers jsonb) RETURNS arrival[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_empty arrival[];
BEGIN
  WITH p AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(p_barriers) AS x(tenant_id uuid, barrier_id uuid, run_id uuid, step_id uuid, fan_id uuid, node text, kind text, rule text, need int, share double precision, expected int, on_failed text, rest text, within_ms bigint, slots int)
  ), b AS (
    INSERT INTO barrier (tenant_id, barrier_id, run_id, step_id, fan_id, node, kind, rule, need, share, expected, on_failed, rest, slots, slots_left, state, deadline_at, created_at)
    SELECT p.tenant_id, p.barrier_id, p.run_id, p.step_id, p.fan_id, p.node, p.kind, p.rule, coalesce(p.need, needed(p.share, p.expected)), p.share, p.expected, coalesce(p.on_failed, 'fail'), coalesce(p.rest, 'cancel'), coalesce(p.slots, 0), coalesce(p.slots, 0), 'waiting',
           v_now + p.within_ms * interval '1 ms', v_now FROM p
  ), l AS (
    -- the capacity of each slot is exact: it is known from the indexes which child arrives where
    INSERT INTO barrier_slot (tenant_id, barrier_id, slot, remaining)
    SELECT p.tenant_id, p.barrier_id, slot_of(i), count(*) FROM p, generate_series(0, p.expected - 1) i WHERE coalesce(p.slots, 0) > 0 GROUP BY 1, 2, 3
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at, body)
    SELECT p.tenant_id, p.run_id, 'BarrierCreated', 0, v_now, jsonb_strip_nulls(jsonb_build_object('barrier', p.barrier_id, 'step', p.step_id, 'fan', p.fan_id, 'node', p.node, 'kind', p.kind, 'rule', p.rule, 'need', p.need, 'expected', p.expected,
      'on_failed', p.on_failed, 'rest', p.rest, 'slots', nullif(p.slots, 0), 'deadline_at', v_now + p.within_ms * interval '1 ms')) FROM p
  ), t AS (
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id) SELECT p.tenant_id, 'barrier_deadline', v_now + p.within_ms * interval '1 ms', p.run_id, p.barrier_id FROM p WHERE p.within_ms IS NOT NULL
  )
  SELECT array_agg(ROW(p.barrier_id, 0, 0, 0, 0)::arrival) INTO v_empty FROM p WHERE p.expected = 0 OR p.need > p.expected;
  RETURN coalesce(v_empty, '{}');
END $$;
