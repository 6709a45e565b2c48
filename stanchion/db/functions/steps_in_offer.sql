-- purpose: how many steps one offer names, of so many that are offered at once: several when they are known to be short, or unknown and very many; a sixteenth at most, so that many workers have a part
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION steps_in_offer(p_workflow text, p_version int, p_node text, p_of bigint) RETURNS int LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT greatest(1, least(p_of / 16, CASE WHEN p_of < 32 THEN 1 ELSE coalesce(
    (SELECT CASE WHEN n.mean_ms < 20 THEN 20 WHEN n.mean_ms < 100 THEN 4 ELSE 1 END FROM node_stat n WHERE n.workflow = p_workflow AND n.version = p_version AND n.node = p_node),
    CASE WHEN p_of >= 500 THEN 8 ELSE 1 END) END))::int
$$;
