-- purpose: of a run that ends without success and whose workflow asks for it, undo what it did, the newest first and one at a time; whatever could not be undone is told with the run's reason
-- transition: births of steps of kind undo
-- fenced by: the run being in cancelling; the caller holds its sweep
-- locks: operations of the run
CREATE FUNCTION compensate_next(r run) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  o operation;
BEGIN
  IF NOT coalesce((SELECT w.graph->'compensate' ? (CASE r.outcome WHEN 'rejected' THEN 'cancelled' ELSE r.outcome END) FROM workflow w WHERE w.name = r.workflow AND w.version = r.workflow_version), false) THEN RETURN false; END IF;
  SELECT x.* INTO o FROM operation x WHERE x.run_id = r.run_id AND x.state = 'confirmed' AND x.undo_kind IS NOT NULL AND x.compensates IS NULL
    AND NOT EXISTS (SELECT FROM step s WHERE s.run_id = r.run_id AND s.kind = 'undo' AND (s.input->>'operation')::uuid = x.operation_id)
  ORDER BY x.confirmed_at DESC, x.operation_id DESC LIMIT 1 FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM undo_operation(o, 'engine', format('the run is %s', r.outcome));
  RETURN true;
END $$;
