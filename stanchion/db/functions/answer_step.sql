-- purpose: the decision becomes the result of the step that waits for it; with on_timeout fail, silence makes the step fail
-- transition: step waiting -> succeeded|failed
-- fenced by: the caller holds the step and the approval that it asked with its last fence
-- locks: those of choose and step_failed
CREATE FUNCTION answer_step(a approval, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_fails boolean := a.state = 'expired' AND a.on_timeout = 'fail';
  s step;
  d record;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_settled := '{}';
  UPDATE step x SET state = CASE WHEN v_fails THEN 'failed' ELSE 'succeeded' END, version = x.version + 1, updated_at = v_now
  WHERE x.step_id = a.step_id AND x.tenant_id = a.tenant_id AND x.state = 'waiting' AND x.fence = a.fence RETURNING * INTO s;
  IF NOT FOUND THEN RETURN; END IF;
  DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind = 'approval';
  IF v_fails THEN
    SELECT * INTO d FROM step_failed(s, jsonb_build_object('code', 'E-APR-02', 'what', 'nobody decided in time', 'approval', a.approval_id));
    o_arrivals := d.o_arrivals;
    o_after := d.o_after;
    o_settled := s.step_id || d.o_skipped;
    RETURN;
  END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepAnswered', s.version, v_now, a.decided_by, jsonb_build_object('approval', a.approval_id, 'outcome', a.state));
  INSERT INTO result (tenant_id, step_id, fence, body) VALUES (s.tenant_id, s.step_id, s.fence, jsonb_build_object('approval_id', a.approval_id, 'approved', a.state = 'granted', 'outcome', a.state, 'reason', a.reason, 'edited', a.edited_by IS NOT NULL, 'payload', CASE WHEN a.edited_by IS NOT NULL AND a.state = 'granted' THEN a.payload END,
    'by', (SELECT coalesce(jsonb_agg(v.subject ORDER BY v.number), '[]') FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.vote = CASE a.state WHEN 'granted' THEN 'approve' ELSE 'reject' END)));
  o_arrivals := arrivals_of(s, 'ok');
  o_settled := ARRAY[s.step_id];
  IF s.counts THEN o_after := ARRAY[ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath]; END IF;
  IF s.chooses IS NOT NULL THEN
    SELECT * INTO d FROM choose(s, NULL);
    o_arrivals := o_arrivals || d.o_arrivals;
    o_after := o_after || d.o_after;
  END IF;
END $$;
