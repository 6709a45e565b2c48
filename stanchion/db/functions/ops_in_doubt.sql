-- purpose: what a probe asks after: the operations of a step whose fate nobody knows
-- transition: none
-- fenced by: the step's own fence
-- locks: none
CREATE FUNCTION ops_in_doubt(p_step uuid, p_fence bigint) RETURNS TABLE (operation_id uuid, kind text, request_key text, payload jsonb, payload_blob bytea, sends int, probes int, unknown_ms bigint, lands_in_ms bigint, compensated_receipt jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.operation_id, o.kind, o.request_key, o.payload, o.payload_blob, o.sends::int, o.probes::int, ceil(extract(epoch FROM clock() - o.unknown_since) * 1000)::bigint, ceil(extract(epoch FROM o.lands_until - clock()) * 1000)::bigint,
    (SELECT c.receipt FROM operation c WHERE c.operation_id = o.compensates AND c.tenant_id = o.tenant_id)
  FROM step s JOIN operation o ON o.step_id = s.step_id AND o.tenant_id = s.tenant_id
  WHERE s.step_id = p_step AND s.fence = p_fence AND s.state IN ('leased', 'running', 'reconciling') AND o.state = 'unknown' ORDER BY o.operation_id
$$;
