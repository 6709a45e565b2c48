-- purpose: keep a view of the task list under a name; a name of its owner that is there is changed. NULL above the limit of a tenant
-- transition: none
-- fenced by: the limit, counted under the tenant's lock
-- locks: an advisory lock on the tenant's views, the view; the audit chain last
CREATE FUNCTION save_view(p_tenant uuid, p_view uuid, p_owner text, p_name text, p_query text, p_order text, p_shared boolean) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_id uuid;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('views:' || p_tenant::text, 0));
  UPDATE saved_view v SET query = p_query, "order" = p_order, shared = p_shared, updated_at = clock() WHERE v.tenant_id = p_tenant AND v.owner = p_owner AND v.name = p_name RETURNING v.view_id INTO v_id;
  IF v_id IS NULL THEN
    IF (SELECT count(*) FROM saved_view v WHERE v.tenant_id = p_tenant) >= limits.VIEWS THEN RETURN NULL; END IF;
    INSERT INTO saved_view (view_id, tenant_id, owner, name, query, "order", shared) VALUES (p_view, p_tenant, p_owner, p_name, p_query, p_order, p_shared);
    v_id := p_view;
  END IF;
  PERFORM note_act(p_tenant, p_owner, 'view.save', v_id::text, jsonb_build_object('name', p_name, 'query', p_query, 'shared', p_shared));
  RETURN v_id;
END $$;
