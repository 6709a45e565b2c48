-- purpose: in words, what used up a step's attempts
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION how_it_failed(p_step uuid) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT concat_ws(', ',
    CASE WHEN failed > 0 THEN format('it failed %s', CASE failed WHEN 1 THEN 'once' ELSE failed || ' times' END) END,
    CASE WHEN lost > 0 THEN format('its worker was lost %s', CASE lost WHEN 1 THEN 'once' ELSE lost || ' times' END) END)
  FROM (SELECT count(*) FILTER (WHERE a.state = 'failed') AS failed, count(*) FILTER (WHERE a.state = 'lost' AND a.counted) AS lost FROM attempt a WHERE a.step_id = p_step) x
$$;
