-- purpose: nothing of a step is in doubt any more: it becomes ready, or is cancelled when its run winds down
-- transition: step unknown|reconciling -> ready|cancelled
-- fenced by: the proof that the caller presents, and that no doubt is left
-- locks: the caller holds the step; the run (shared)
CREATE FUNCTION go_on(s step, p_proof bigint, p_actor text, p_body jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ends boolean := (SELECT r.state = 'cancelling' AND s.kind <> 'undo' FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id FOR SHARE);
BEGIN
  DELETE FROM ready y WHERE y.step_id = s.step_id;
  DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind = 'probe';
  UPDATE step x SET state = CASE WHEN v_ends THEN 'cancelled' ELSE 'ready' END, doubts = s.doubts, version = x.version + 1, proof = p_proof, updated_at = clock() WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id RETURNING * INTO s;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body)
  VALUES (s.tenant_id, s.run_id, s.step_id, CASE WHEN v_ends THEN 'StepCancelled' ELSE 'StepSettled' END, s.version, nullif(greatest(p_proof, 0), 0), s.updated_at, p_actor, p_body);
  IF NOT v_ends THEN PERFORM make_ready(ARRAY[s.step_id]); END IF;
  RETURN s.state;
END $$;
