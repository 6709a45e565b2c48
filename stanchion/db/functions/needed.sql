-- purpose: how many arrivals a share of so many branches is, rounded up
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION needed(p_share double precision, p_of int) RETURNS int LANGUAGE sql IMMUTABLE SET search_path = stanchion, pg_temp AS $$ SELECT ceil(round((p_share * p_of)::numeric, 9))::int $$;
