-- purpose: the arrivals of one settled step at the barriers that it feeds; a fan-out itself feeds none, its branches do
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION arrivals_of(s step, p_how text) RETURNS arrival[] LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT coalesce(array_agg(ROW(f, s.idx, (p_how = 'ok')::int, (p_how = 'bad')::int, (p_how = 'skipped')::int)::arrival), '{}') FROM unnest(CASE WHEN s.kind = 'step' THEN s.feeds END) f
$$;
