-- purpose: whether it is this orchestrator's turn to ask the broker how far its readers are: one in so many seconds, of however many
-- transition: none
-- fenced by: the row's lock: of those who come at once one is told yes
-- locks: the one row
CREATE FUNCTION take_lag_look(p_by text, p_every interval) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  -- a conflict locks the row even where nothing is updated, and that is a write
  IF EXISTS (SELECT FROM lag_look x WHERE x.taken_at > v_now - p_every) THEN RETURN false; END IF;
  INSERT INTO lag_look AS x (taken_by, taken_at) VALUES (p_by, v_now)
  ON CONFLICT (here) DO UPDATE SET taken_by = excluded.taken_by, taken_at = v_now WHERE x.taken_at <= v_now - p_every;
  RETURN FOUND;
END $$;
