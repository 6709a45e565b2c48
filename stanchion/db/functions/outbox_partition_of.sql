-- purpose: the outbox partition of an aggregate; the last byte of a UUIDv7 is random
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION outbox_partition_of(p_id uuid) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT (get_byte(uuid_send(p_id), 15) % limits.OUTBOX_PARTITIONS)::smallint $$;
