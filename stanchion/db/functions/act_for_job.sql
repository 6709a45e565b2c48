-- purpose: a job acts on one target, in the name of who asked for it, and notes in the same transaction what came of it: a target that has a note is not acted on again. Returns the job's counts; NULL when another worker has the job; `stopped` in them when somebody stopped it
-- transition: those of cancel_task, pause_task, retry_task or reopen_steps
-- fenced by: the job's fence, and the target's note: each once
-- locks: the job, the note, then what the act locks; the audit chain last
CREATE FUNCTION act_for_job(p_tenant uuid, p_job uuid, p_fence bigint, p_target uuid, p_plan jsonb, p_fault jsonb) RETURNS jsonb LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  j maintenance_job;
  v_by text;
  v_reason text;
  v_before text;
  v_made uuid;
  v_outcome text := 'done';
  v_code text;
  v_what text;
  v_result jsonb;
BEGIN
  SELECT * INTO j FROM maintenance_job x WHERE x.kind = 'bulk' AND x.key = p_job::text AND x.tenant_id = p_tenant AND x.fence = p_fence AND x.state = 'running' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  v_result := coalesce(j.result, '{}');
  IF j.request ? 'stopped' THEN RETURN v_result || jsonb_build_object('stopped', j.request->'stopped'); END IF;
  INSERT INTO job_target (job_id, target_id, tenant_id, outcome) VALUES (p_job, p_target, p_tenant, 'done') ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN v_result; END IF;
  v_by := j.request->>'by';
  v_reason := coalesce(j.request->>'reason', '');
  IF p_fault IS NOT NULL THEN
    v_outcome := p_fault->>'outcome';
    v_code := p_fault->>'code';
    v_what := p_fault->>'what';
  ELSE
    BEGIN
      CASE j.request->>'action'
        WHEN 'task.cancel' THEN
          SELECT t.state INTO v_before FROM task t WHERE t.task_id = p_target AND t.tenant_id = p_tenant;
          IF v_before IN ('cancelling', 'cancelled') OR cancel_task(p_tenant, p_target, v_reason, v_by) NOT IN ('cancelling', 'cancelled') THEN
            RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-TASK-05 the task has ended, or is about to';
          END IF;
        WHEN 'task.pause', 'task.resume' THEN
          IF NOT pause_task(p_tenant, p_target, j.request->>'action' = 'task.pause', v_by) THEN
            RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-JOB-05 it was so already';
          END IF;
        WHEN 'task.retry' THEN
          v_made := retry_task(p_tenant, p_target, (p_plan->>'run')::uuid, (p_plan->>'open')::int, p_plan->'steps', p_plan->'barriers', p_plan->'kept', v_by);
        WHEN 'task.reopen' THEN
          IF NOT EXISTS (SELECT FROM reopen_steps(p_tenant, ARRAY[p_target], NULL, v_reason, v_by)) THEN
            RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-TASK-06 it has not failed, or nothing waits for it any more';
          END IF;
      END CASE;
    EXCEPTION WHEN SQLSTATE 'ST010' OR SQLSTATE 'ST011' THEN
      v_outcome := 'skipped';
      v_code := substring(SQLERRM FROM '^E-[A-Z]+-[0-9]+');
      v_what := substring(SQLERRM FROM '^E-[A-Z]+-[0-9]+ (.*)');
    END;
  END IF;
  UPDATE job_target x SET outcome = v_outcome, code = v_code, what = left(v_what, 1000), made_id = v_made, at = clock() WHERE x.job_id = p_job AND x.target_id = p_target AND x.tenant_id = p_tenant;
  v_result := v_result || jsonb_build_object(v_outcome, coalesce((v_result->>v_outcome)::bigint, 0) + 1);
  IF v_outcome <> 'done' THEN
    v_result := v_result || jsonb_build_object('reasons', coalesce(v_result->'reasons', '{}') || jsonb_build_object(coalesce(v_code, 'E-BUG-01'), coalesce((v_result->'reasons'->>coalesce(v_code, 'E-BUG-01'))::bigint, 0) + 1));
  END IF;
  UPDATE maintenance_job x SET result = v_result WHERE x.kind = 'bulk' AND x.key = p_job::text AND x.tenant_id = p_tenant;
  RETURN v_result;
END $$;
