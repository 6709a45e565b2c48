-- purpose: what the world is told of an approval when the transaction concludes: whom it concerns and how it stands, not what is asked; with a reason the run ends with it
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION approval_news(a approval, p_type text, p_ends jsonb DEFAULT NULL) RETURNS aftermath LANGUAGE sql IMMUTABLE SET search_path = stanchion, pg_temp AS $$
  SELECT ROW(a.run_id, 0, p_ends, p_type, jsonb_strip_nulls(jsonb_build_object('approval_id', a.approval_id, 'step_id', a.step_id, 'node', a.node, 'state', a.state, 'operation', a.operation_kind)))::aftermath
$$;
