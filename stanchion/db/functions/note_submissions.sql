-- purpose: the audit entries of a batch of submissions, one for each tenant and submitter, in one of several lanes: submitters don't wait for each other's commits
-- transition: none
-- fenced by: the chain of hashes of the lane
-- locks: nothing else, tenants in order; the audit chain last
CREATE FUNCTION note_submissions(p_tasks uuid[]) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO audit (tenant_id, lane, actor, action, target, detail)
  SELECT t.tenant_id, pg_backend_pid() % limits.SUBMISSION_LANES + 1, t.submitted_by, 'task.submit', CASE count(*) WHEN 1 THEN min(t.task_id::text) ELSE count(*) || ' tasks' END,
    jsonb_build_object('via', t.submitted_via, 'tasks', jsonb_agg(t.task_id ORDER BY t.task_id), 'workflows', jsonb_agg(DISTINCT t.workflow || '@' || t.workflow_version))
  FROM task t WHERE t.task_id = ANY (p_tasks) GROUP BY t.tenant_id, t.submitted_by, t.submitted_via ORDER BY t.tenant_id
$$;
