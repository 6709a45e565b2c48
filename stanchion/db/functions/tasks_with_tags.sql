-- purpose: the tasks of the connection's tenant that have one of these tags. A function, since an index on tags is not used behind row-level security: overlap of arrays is not leakproof
-- transition: none
-- fenced by: the tenant that the connection shows
-- locks: none
CREATE FUNCTION tasks_with_tags(p_tags text[]) RETURNS SETOF uuid LANGUAGE sql STABLE ROWS 1000 SET search_path = stanchion, pg_temp AS $$
  SELECT t.task_id FROM task t WHERE t.tenant_id = current_setting('stanchion.tenant')::uuid AND t.tags <> '{}' AND t.tags && p_tags
$$;
