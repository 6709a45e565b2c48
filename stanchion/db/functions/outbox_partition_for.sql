-- purpose: the outbox partition of a message that belongs to no aggregate, by its key
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION outbox_partition_for(p_key text) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT (hashtextextended(p_key, 0) & (limits.OUTBOX_PARTITIONS - 1))::smallint $$;
