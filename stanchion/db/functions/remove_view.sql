-- purpose: remove a saved view: one's own, or with p_any a shared one of somebody else; false when there is none
-- transition: none
-- fenced by: its owner
-- locks: the view; the audit chain last
CREATE FUNCTION remove_view(p_tenant uuid, p_view uuid, p_actor text, p_any boolean) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_name text;
BEGIN
  DELETE FROM saved_view v WHERE v.view_id = p_view AND v.tenant_id = p_tenant AND (v.owner = p_actor OR (p_any AND v.shared)) RETURNING v.name INTO v_name;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'view.remove', p_view::text, jsonb_build_object('name', v_name));
  RETURN true;
END $$;
