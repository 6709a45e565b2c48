-- purpose: make a workflow version known; the same version with another graph is refused
-- transition: none
-- fenced by: the key (name, version)
-- locks: only a new row
CREATE FUNCTION register_workflow(p_name text, p_version int, p_graph jsonb, p_digest bytea) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO workflow (name, version, graph, digest) VALUES (p_name, p_version, p_graph, p_digest) ON CONFLICT DO NOTHING;
  IF FOUND THEN RETURN true; END IF;
  IF (SELECT w.digest FROM workflow w WHERE w.name = p_name AND w.version = p_version) <> p_digest THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-VER-01 workflow %s version %s is registered with another graph', p_name, p_version),
      DETAIL = 'A run keeps the version that it started with, so a version never changes.', HINT = format('give the changed workflow version=%s', p_version + 1);
  END IF;
  RETURN false;
END $$;
