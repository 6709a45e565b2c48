-- purpose: whether a waiting join counts something else than its branches say
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION is_miscounted(b barrier) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE WHEN b.slots > 0
    THEN (b.failed, b.skipped, b.slots_left::bigint) IS DISTINCT FROM (x.bad, x.skipped, x.slots_left) OR x.wrong
    ELSE (b.succeeded, b.failed, b.skipped) IS DISTINCT FROM (x.ok, x.bad, x.skipped) END
  FROM (SELECT coalesce(sum(s.ok), 0)::int AS ok, coalesce(sum(s.bad), 0)::int AS bad, coalesce(sum(s.skipped), 0)::int AS skipped, count(*) FILTER (WHERE s.remaining > 0) AS slots_left,
      coalesce(bool_or(s.remaining IS DISTINCT FROM (SELECT l.remaining FROM barrier_slot l WHERE l.barrier_id = b.barrier_id AND l.slot = s.slot)), false) AS wrong FROM slots_of(b) s) x
$$;
