-- purpose: a batch from the commands topic in one transaction: tasks, the answers to their submitters, and what was parked
-- transition: those of submit
-- fenced by: those of submit: a message that comes again gives the same task, and the same answer once more
-- locks: only new rows, tasks in key order; the audit chain last
CREATE FUNCTION take_in(p_tasks jsonb, p_steps jsonb, p_barriers jsonb, p_asked jsonb, p_conflict jsonb, p_replies jsonb, p_letters jsonb)
RETURNS TABLE (ord int, outcome text, task_id uuid, run_id uuid, state text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
BEGIN
  IF jsonb_array_length(p_letters) > 0 THEN PERFORM bury(p_letters); END IF;
  IF jsonb_array_length(p_replies) > 0 THEN PERFORM post(p_replies); END IF;
  IF jsonb_array_length(p_tasks) > 0 THEN
    RETURN QUERY WITH s AS MATERIALIZED (
      SELECT * FROM submit(p_tasks, p_steps, p_barriers)
    ), o AS (
      INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, causation_id, body)
      SELECT outbox_partition_for(x.key), x.tenant_id, x.topic, x.key, CASE s.outcome WHEN 'conflict' THEN 'TaskRejected' ELSE 'TaskAccepted' END, x.correlation_id, x.causation_id,
             (CASE s.outcome WHEN 'conflict' THEN p_conflict ELSE jsonb_build_object('task_id', s.task_id, 'run_id', s.run_id, 'state', s.state, 'duplicate', s.outcome = 'duplicate') END)::text
      FROM s JOIN jsonb_to_recordset(p_asked) AS x(ord int, tenant_id uuid, topic text, key text, correlation_id text, causation_id text) ON x.ord = s.ord
    )
    SELECT s.ord, s.outcome, s.task_id, s.run_id, s.state FROM s;
  END IF;
END $$;
