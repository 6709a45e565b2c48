-- purpose: delete what the broker acknowledged; a relay that lost its partition meanwhile deletes nothing, its messages are sent once more
-- transition: none
-- fenced by: the partition's owner and fence
-- locks: the partitions for share, then the rows
CREATE FUNCTION relay_sent(p_relay uuid, p_parts int[], p_fences bigint[], p_ids bigint[]) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_mine int[];
  v_n int;
BEGIN
  SELECT array_agg(x.part) INTO v_mine FROM (SELECT p.part::int AS part FROM outbox_partition p WHERE p.part = ANY (p_parts) AND p.owner = p_relay AND p.fence = p_fences[array_position(p_parts, p.part::int)] ORDER BY p.part FOR SHARE) x;
  DELETE FROM outbox o WHERE o.id = ANY (p_ids) AND o.part = ANY (v_mine);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
