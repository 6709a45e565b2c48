-- purpose: what follows when a step ends without a result: its arrivals, and the end of those that only it could have started (the targets of its choice, the joins of a fan-out that never opened)
-- transition: targets and joins pending -> skipped; a join that others feed goes on without the fan-out that was skipped
-- fenced by: the caller settled the step in this transaction
-- locks: the targets, in the order of the graph
CREATE FUNCTION follow(s step, p_how text, p_reason jsonb, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_target uuid;
  x record;
BEGIN
  o_arrivals := arrivals_of(s, p_how);
  o_after := '{}';
  o_skipped := '{}';
  -- a failed step that holds its branch may be reopened and choose then
  IF p_how = 'bad' AND s.state = 'failed' AND is_held(s) THEN RETURN; END IF;
  FOREACH v_target IN ARRAY coalesce(CASE WHEN s.kind = 'fan' THEN s.feeds ELSE s.chooses END, '{}') LOOP
    IF s.kind = 'fan' AND p_how <> 'bad' THEN SELECT * INTO x FROM pass_over(v_target, p_reason); ELSE SELECT * INTO x FROM skip_step(v_target, p_reason, p_how = 'bad'); END IF;
    o_arrivals := o_arrivals || x.o_arrivals;
    o_after := o_after || x.o_after;
    o_skipped := o_skipped || x.o_skipped;
  END LOOP;
END $$;
