-- purpose: the place of a transaction in the order of events: its id here; after a restore into another cluster, adopt_cluster puts what was restored before it
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION event_xid(p_xid xid8) RETURNS xid8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT p_xid $$;
