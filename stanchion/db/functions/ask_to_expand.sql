-- purpose: leave the expansion of a fan-out to the planner: a due row is the fact, a message the hint
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION ask_to_expand(s step) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (s.tenant_id, 'expand', clock(), s.run_id, s.step_id, 0);
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  VALUES (outbox_partition_of(s.run_id), s.tenant_id, 'stanchion.orchestrator.commands.v1', s.run_id::text, 'PlanRun', s.run_id::text, jsonb_build_object('run_id', s.run_id)::text);
$$;
