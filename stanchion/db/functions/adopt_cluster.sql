-- purpose: after a logical restore: transactions of this cluster come after all that the restored events name, or those would be in its future, shown to nobody; true if the cluster is another one
-- transition: none
-- fenced by: the system identifier that the database was last seen under
-- locks: the cluster's row, then the table of events, against writers
CREATE FUNCTION adopt_cluster() RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_here bigint := (SELECT c.system_identifier FROM pg_control_system() c);
  v_last xid8;
BEGIN
  PERFORM FROM cluster c WHERE c.system_identifier <> v_here FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  LOCK TABLE event IN SHARE ROW EXCLUSIVE MODE;
  v_last := (SELECT max(e.xid) FROM event e);
  IF v_last >= event_xid(pg_snapshot_xmax(pg_current_snapshot())) THEN
    EXECUTE format('CREATE OR REPLACE FUNCTION event_xid(p_xid xid8) RETURNS xid8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT ((p_xid::text::numeric + %s)::text)::xid8 $f$', v_last);
  END IF;
  UPDATE cluster SET system_identifier = v_here, adopted_at = clock();
  RETURN true;
END $$;
