-- purpose: the arrivals of one settled step at the barriers that it feeds; a fan-out itself feeds none, its branches do
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION arrivals_of(s step, p_how text) RETURNS arrival[] LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_out arrival[] := '{}';
  v_held uuid;
BEGIN
  IF s.kind = 'step' THEN
    RETURN coalesce((SELECT array_agg(ROW(f, s.idx, (p_how = 'ok')::int, (p_how = 'bad')::int, (p_how = 'skipped')::int)::arrival) FROM unnest(s.feeds) f), '{}');
  END IF;
  RETURN v_out;
END $$;
