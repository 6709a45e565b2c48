-- purpose: whether something was sent for an operation that is prepared again, and may be done yet: it was not found, and its key held a second one back
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION may_still_land(o operation) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.state = 'prepared' AND o.sends > 0 AND o.settled_by IS NULL AND NOT coalesce(o.lands_until < clock(), false)
$$;
