-- purpose: an operation that undoes another is confirmed: the other is compensated, in the same transaction
-- transition: operation confirmed -> compensated
-- fenced by: the confirmation of what undoes it
-- locks: the operation that is undone (the caller holds the one that undoes it)
CREATE FUNCTION note_compensated(c operation) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  o operation;
BEGIN
  IF c.compensates IS NULL OR c.state <> 'confirmed' THEN RETURN; END IF;
  UPDATE operation x SET state = 'compensated', version = x.version + 1, proof = -4, updated_at = clock() WHERE x.operation_id = c.compensates AND x.tenant_id = c.tenant_id AND x.state = 'confirmed' RETURNING * INTO o;
  IF FOUND THEN PERFORM note_operation(o, 'OperationCompensated', NULL, 'engine', jsonb_build_object('by', c.operation_id)); END IF;
END $$;
