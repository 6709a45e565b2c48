-- purpose: keep what was learned about an operation, whoever learned it and whether or not it settles anything
-- transition: none
-- fenced by: the caller
-- locks: the caller holds the operation
CREATE FUNCTION add_probe(o operation, p_by text, p_verdict text, p_conclusive boolean, p_detail jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO operation_probe (tenant_id, operation_id, number, by, verdict, conclusive, detail) VALUES (o.tenant_id, o.operation_id, o.probes + 1, p_by, p_verdict, p_conclusive, p_detail);
  UPDATE operation x SET probes = x.probes + 1, verified_at = clock(), updated_at = clock() WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id;
END $$;
