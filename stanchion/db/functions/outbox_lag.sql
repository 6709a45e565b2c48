-- purpose: how many messages wait to be published and how old the oldest is
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION outbox_lag() RETURNS TABLE (waiting bigint, oldest_seconds float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT (SELECT count(*) FROM (SELECT FROM outbox LIMIT 100000) x), coalesce(extract(epoch FROM clock() - (SELECT o.at FROM outbox o ORDER BY o.id LIMIT 1)), 0)
$$;
