-- purpose: an entry of the audit log for an act of somebody; called last in its transaction, since it holds the lane's lock until the end
-- transition: none
-- fenced by: the chain of hashes
-- locks: nothing else; the audit chain last
CREATE FUNCTION note_act(p_tenant uuid, p_actor text, p_action text, p_target text, p_detail jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, p_action, p_target, jsonb_strip_nulls(p_detail))
$$;
