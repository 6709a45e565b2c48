-- purpose: how many steps one offer names: several when they are known to be short, else one
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION steps_in_offer(p_workflow text, p_version int, p_node text) RETURNS int LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT coalesce((SELECT CASE WHEN n.mean_ms < 20 THEN 20 ELSE 1 END FROM node_stat n WHERE n.workflow = p_workflow AND n.version = p_version AND n.node = p_node), 1)
$$;
