-- purpose: the one clock that decides; tests replace this function to move time
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$ SELECT clock_timestamp() $$;
