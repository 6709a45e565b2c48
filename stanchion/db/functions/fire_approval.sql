-- purpose: nobody decided in time: the approval expires, and its step goes on with a no, or fails
-- transition: approval requested -> expired; step waiting -> succeeded|failed
-- fenced by: the approval's state and time, looked at under its lock
-- locks: the step (skipped when locked: the timer stays due), then the approval
CREATE FUNCTION fire_approval(t timer, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  a approval;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_settled := '{}';
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN; END IF;
  SELECT * INTO a FROM approval x WHERE x.step_id = s.step_id AND x.fence = s.fence AND x.tenant_id = s.tenant_id AND x.state <> 'replaced' FOR NO KEY UPDATE;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  IF s.state = 'waiting' AND a.state = 'requested' AND a.expires_at <= clock() THEN
    SELECT x.o_arrivals, x.o_after, x.o_settled INTO o_arrivals, o_after, o_settled FROM end_approval(a, 'expired', NULL, 'nobody decided in time') x;
  END IF;
END $$;
