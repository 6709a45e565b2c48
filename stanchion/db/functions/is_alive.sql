-- purpose: whether a worker takes on work: active, and heard of within the time that limits allow a silent one
-- transition: none
-- fenced by: nothing: presence is information
-- locks: none
CREATE FUNCTION is_alive(w worker) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT w.state = 'active' AND w.seen_at > clock() - limits.WORKER_SEEN_SECONDS * interval '1 s'
$$;
