-- purpose: the name of the event that says that an operation has reached a state
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION operation_event(p_state text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT 'Operation' || replace(initcap(replace(p_state, '_', ' ')), ' ', '')
$$;
