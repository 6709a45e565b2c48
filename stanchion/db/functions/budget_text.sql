-- purpose: how a unit of a budget stands, in words
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION budget_text(p_unit text, p_allowed numeric, p_spent numeric, p_asked numeric DEFAULT NULL) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT concat_ws(', ', format('%s %s allowed', trim_scale(p_allowed), p_unit), format('%s spent', trim_scale(p_spent)), CASE WHEN p_asked IS NOT NULL THEN format('%s asked for', trim_scale(p_asked)) END)
$$;
