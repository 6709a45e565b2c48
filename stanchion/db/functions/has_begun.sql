-- purpose: whether any attempt of a step ever began: until then its time to start runs on, however often it was handed out and given back
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION has_begun(p_step uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT EXISTS (SELECT FROM attempt a WHERE a.step_id = p_step AND a.started_at IS NOT NULL)
$$;
