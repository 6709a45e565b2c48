-- purpose: one of the things that a step waits for was skipped as a whole: it runs with what the others bring, and is skipped when all were
-- transition: step pending -> ready, or pending -> skipped when nothing came at all
-- fenced by: the step's row lock: of two that are passed over at once, the second sees the first
-- locks: the step, then those that only it could have started
CREATE FUNCTION pass_over(p_step uuid, p_reason jsonb, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  s step;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_skipped := '{}';
  UPDATE step x SET waits = x.waits - 1, updated_at = v_now WHERE x.step_id = p_step AND x.state = 'pending' AND x.waits > 1;
  IF FOUND THEN RETURN; END IF;
  -- it was the last: whether anything came is looked at under the step's lock
  PERFORM FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM barrier b, barrier_release r WHERE b.step_id = p_step AND b.state = 'released' AND r.barrier_id = b.barrier_id AND r.tenant_id = b.tenant_id AND (b.kind = 'gather' OR r.included > 0)) THEN
    UPDATE step x SET state = 'ready', waits = 0, version = x.version + 1, updated_at = v_now, expires_at = v_now + x.total_ms * interval '1 ms'
    WHERE x.step_id = p_step AND x.state = 'pending' AND x.kind = 'step' RETURNING * INTO s;
    IF FOUND THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version, at) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepReady', s.version, v_now);
      PERFORM make_ready(ARRAY[s.step_id]);
    END IF;
  ELSE
    SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM skip_step(p_step, p_reason, false) x;
  END IF;
END $$;
