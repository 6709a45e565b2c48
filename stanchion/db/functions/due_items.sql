-- purpose: what the next batch of a kind would take in, for doing it one by one when the batch was refused
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION due_items(p_kind text, p_limit int) RETURNS SETOF uuid LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  IF p_kind = 'lease' THEN
    RETURN QUERY SELECT a.step_id FROM attempt a WHERE a.ended_at IS NULL AND a.lease_until < v_now AND a.step_id <> ALL (aside('lease')) ORDER BY a.lease_until LIMIT p_limit;
  ELSE
    RETURN QUERY SELECT t.timer_id FROM timer t WHERE t.due_at <= v_now AND t.kind <> 'expand' AND t.timer_id <> ALL (aside('timer')) ORDER BY t.due_at LIMIT p_limit;
  END IF;
END $$;
