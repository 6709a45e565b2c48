-- purpose: what a partition of events does not get from its table: row-level security of its own, and the refusal of TRUNCATE
-- transition: none
-- fenced by: nothing
-- locks: the partition
CREATE FUNCTION guard_partition(p_name text) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', p_name);
  EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', p_name);
  EXECUTE format('CREATE TRIGGER never_truncated BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', p_name);
END $$;
