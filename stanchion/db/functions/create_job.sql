-- purpose: somebody asks for an act on all tasks that fit a filter; the same id again is the same job. False above the number that a tenant may have open
-- transition: maintenance job: born due
-- fenced by: the primary key, and the limit, counted under the tenant's lock
-- locks: an advisory lock on the tenant's jobs, a new row; the audit chain last
CREATE FUNCTION create_job(p_tenant uuid, p_job uuid, p_request jsonb, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('jobs:' || p_tenant::text, 0));
  IF EXISTS (SELECT FROM maintenance_job j WHERE j.kind = 'bulk' AND j.key = p_job::text AND j.tenant_id = p_tenant) THEN RETURN true; END IF;
  IF (SELECT count(*) FROM maintenance_job j WHERE j.kind = 'bulk' AND j.tenant_id = p_tenant AND j.finished_at IS NULL) >= limits.JOBS_OPEN THEN RETURN false; END IF;
  INSERT INTO maintenance_job (kind, key, tenant_id, request) VALUES ('bulk', p_job::text, p_tenant, p_request || jsonb_build_object('by', p_actor));
  PERFORM note_act(p_tenant, p_actor, 'job.create', p_job::text, p_request);
  RETURN true;
END $$;
