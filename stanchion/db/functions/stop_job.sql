-- purpose: somebody stops a job: nothing is acted on any more from the commit on; what was done stays. NULL: there is none; its state, if it has ended already
-- transition: none (its worker ends it)
-- fenced by: the job's row, which every act locks
-- locks: the job; the audit chain last
CREATE FUNCTION stop_job(p_tenant uuid, p_job uuid, p_reason text, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  j maintenance_job;
BEGIN
  SELECT * INTO j FROM maintenance_job x WHERE x.kind = 'bulk' AND x.key = p_job::text AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF j.finished_at IS NOT NULL OR j.request ? 'stopped' THEN RETURN j.state; END IF;
  UPDATE maintenance_job x SET request = x.request || jsonb_build_object('stopped', jsonb_build_object('by', p_actor, 'reason', p_reason, 'at', clock())),
    due_at = CASE WHEN x.state = 'due' THEN least(x.due_at, clock()) ELSE x.due_at END WHERE x.kind = 'bulk' AND x.key = p_job::text AND x.tenant_id = p_tenant;
  PERFORM note_act(p_tenant, p_actor, 'job.stop', p_job::text, jsonb_build_object('reason', p_reason));
  RETURN j.state;
END $$;
