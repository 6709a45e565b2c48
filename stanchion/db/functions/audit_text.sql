-- purpose: an entry of the audit log as the one text that its hash covers: a JSON array, so that no two entries can read alike
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION audit_text(p_tenant uuid, p_lane smallint, p_id bigint, p_at timestamptz, p_actor text, p_action text, p_target text, p_detail jsonb) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT jsonb_build_array(p_tenant, p_lane, p_id, to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), p_actor, p_action, p_target, p_detail)::text
$$;
