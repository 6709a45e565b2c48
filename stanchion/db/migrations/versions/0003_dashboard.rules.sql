-- Printed by `python -m stanchion.db.render --anew`, and frozen with this migration. Do not edit.

SET search_path = stanchion, pg_temp;
SET check_function_bodies = off;

DO $$
DECLARE
  r record;
BEGIN
  FOR r IN SELECT p.policyname, p.tablename FROM pg_policies p WHERE p.schemaname = 'stanchion' LOOP
    EXECUTE format('DROP POLICY %I ON %I', r.policyname, r.tablename);
  END LOOP;
  FOR r IN SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'stanchion'::regnamespace AND NOT t.tgisinternal AND t.tgparentid = 0 LOOP
    EXECUTE format('DROP TRIGGER %I ON %I', r.tgname, r.relname);
  END LOOP;
  FOR r IN SELECT p.oid::regprocedure AS signature FROM pg_proc p WHERE p.pronamespace = 'stanchion'::regnamespace AND p.proname NOT IN ('clock', 'event_xid') LOOP
    EXECUTE format('DROP FUNCTION %s', r.signature);
  END LOOP;
  FOR r IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'stanchion'::regnamespace AND c.relkind = 'c' LOOP
    EXECUTE format('DROP TYPE %I', r.relname);
  END LOOP;
  FOR r IN SELECT c.relname, c.relkind FROM pg_class c WHERE c.relnamespace = 'stanchion'::regnamespace AND c.relacl IS NOT NULL LOOP
    EXECUTE format('REVOKE ALL ON %s %I FROM stanchion_engine, stanchion_task_service, stanchion_orchestrator, stanchion_relay, stanchion_worker, stanchion_maintenance, stanchion_dashboard', CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, r.relname);
  END LOOP;
  FOR r IN SELECT p.oid::regprocedure AS signature, a.name FROM pg_proc p, unnest(ARRAY['stanchion_owner', 'stanchion_engine', 'stanchion_task_service', 'stanchion_orchestrator', 'stanchion_relay', 'stanchion_worker', 'stanchion_maintenance', 'stanchion_dashboard']) a(name) WHERE p.pronamespace = 'stanchion'::regnamespace AND p.proowner <> a.name::regrole LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %I', r.signature, r.name);
  END LOOP;
END $$;

-- purpose: the composite types that functions pass among themselves
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE TYPE leased AS (
  outcome text, tenant_id uuid, task_id uuid, run_id uuid, step_id uuid, fence bigint, workflow text, workflow_version int, node text,
  fan_id uuid, idx int, round int, number int, max_attempts int, started boolean, timeout_ms bigint, lease_ms bigint, input jsonb, input_blob bytea, sources uuid[], inputs jsonb
);
CREATE TYPE arrival AS (barrier_id uuid, idx int, ok int, bad int, skipped int);
CREATE TYPE barrier_count AS (barrier_id uuid, slotted boolean, full_slots int, ok int, bad int, skipped int);
-- what is to be done to a run once everything below it is locked and settled: count down by `settled`, fail for a `reason`, publish `news`
CREATE TYPE aftermath AS (run_id uuid, settled int, reason jsonb, news text, body jsonb);

-- purpose: trigger functions that refuse what any caller might get wrong and that are not rendered from a state machine
-- transition: none
-- fenced by: they are the fence
-- locks: fenced_rows takes the step rows of what it checks, by step id
CREATE FUNCTION fenced_rows() RETURNS trigger LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_steps uuid[];
BEGIN
  SELECT array_agg(DISTINCT step_id) INTO v_steps FROM new_rows WHERE fence IS NOT NULL;
  IF v_steps IS NULL THEN RETURN NULL; END IF;
  -- FOR NO KEY UPDATE: the writer holds, or gets, the step's row lock, so that the lease can't move before commit
  PERFORM FROM step s WHERE s.step_id = ANY (v_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  -- a scalar subquery is one index probe a row whatever the statistics say; an anti-join was planned as a scan of everything
  IF EXISTS (SELECT FROM new_rows n WHERE n.fence IS NOT NULL
             AND n.fence IS DISTINCT FROM (SELECT s.fence FROM step s WHERE s.step_id = n.step_id AND s.tenant_id = n.tenant_id)) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST003', MESSAGE = format('a row of %s names a fence that is not the current one', TG_TABLE_NAME);
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  -- it only grows as long as what it belongs to is there; retention removes that first
  IF TG_OP = 'DELETE' AND TG_LEVEL = 'ROW' AND TG_NARGS = 1 THEN
    IF TG_ARGV[0] = 'run' THEN
      IF NOT EXISTS (SELECT FROM run r WHERE r.run_id = OLD.run_id) THEN RETURN OLD; END IF;
    ELSIF TG_ARGV[0] = 'operation' THEN
      IF NOT EXISTS (SELECT FROM operation o WHERE o.operation_id = OLD.operation_id) THEN RETURN OLD; END IF;
    ELSIF TG_ARGV[0] = 'task' THEN
      IF NOT EXISTS (SELECT FROM task t WHERE t.task_id = OLD.task_id) THEN RETURN OLD; END IF;
    ELSIF TG_ARGV[0] = 'approval' THEN
      IF NOT EXISTS (SELECT FROM approval a WHERE a.approval_id = OLD.approval_id) THEN RETURN OLD; END IF;
    ELSIF NOT EXISTS (SELECT FROM barrier b WHERE b.barrier_id = OLD.barrier_id) THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = format('%s is append-only: %s is refused', TG_TABLE_NAME, TG_OP);
END $$;

CREATE FUNCTION result_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- a result is accepted once; the one thing that may still be learned of it is that it came too late for its barrier
  IF (NEW.tenant_id, NEW.step_id, NEW.fence, NEW.body, NEW.blob) IS DISTINCT FROM (OLD.tenant_id, OLD.step_id, OLD.fence, OLD.body, OLD.blob) OR (OLD.late AND NOT NEW.late) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'a result is immutable';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION artifact_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- numbers of versions have no holes and are never given twice, and a name stays what it is the name of
  IF (NEW.tenant_id, NEW.artifact_id, NEW.task_id, NEW.name, NEW.created_at) IS DISTINCT FROM (OLD.tenant_id, OLD.artifact_id, OLD.task_id, OLD.name, OLD.created_at) OR NEW.latest NOT IN (OLD.latest, OLD.latest + 1) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'an artifact only counts its versions';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION artifact_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- a row that went while its content stayed would leave an object that nothing accounts for
  IF OLD.state <> 'deleted' THEN RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = format('a version that is %s is not removed', OLD.state); END IF;
  RETURN OLD;
END $$;

CREATE FUNCTION approval_vote_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  a approval;
  v_fault text;
BEGIN
  -- the lock orders votes among themselves and before any use: nobody is counted who comes after the decision
  SELECT * INTO a FROM approval x WHERE x.approval_id = NEW.approval_id AND x.tenant_id = NEW.tenant_id FOR NO KEY UPDATE;
  IF a.state IS DISTINCT FROM 'requested' OR a.expires_at <= clock() THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'a vote comes while the approval is requested, and in its time';
  END IF;
  IF NEW.payload_hash <> a.payload_hash THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'a vote is about what was shown, and nothing else';
  END IF;
  v_fault := speaker_fault(a, NEW.person_id, NEW.vote);
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = format('a vote of somebody who has none: %s', v_fault);
  END IF;
  NEW.subject := (SELECT 'person:' || p.name FROM person p WHERE p.person_id = NEW.person_id AND p.tenant_id = NEW.tenant_id);
  RETURN NEW;
END $$;

CREATE FUNCTION budget_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND (NEW.tenant_id, NEW.task_id, NEW.unit) IS DISTINCT FROM (OLD.tenant_id, OLD.task_id, OLD.unit) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'a budget stays that of its task';
  END IF;
  -- the sum is that of the bookings: only their own trigger changes it
  IF NEW.spent IS DISTINCT FROM (CASE TG_OP WHEN 'UPDATE' THEN OLD.spent ELSE 0 END) AND pg_trigger_depth() < 2 THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'what is spent follows from what was booked';
  END IF;
  -- nobody raises a limit while something is being spent under it
  IF NEW.allowed IS DISTINCT FROM (CASE TG_OP WHEN 'UPDATE' THEN OLD.allowed END)
     AND NOT EXISTS (SELECT FROM task t JOIN run r ON r.run_id = t.run_id AND r.tenant_id = t.tenant_id WHERE t.task_id = NEW.task_id AND t.tenant_id = NEW.tenant_id AND r.state = 'created') THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'a limit is set before a run begins';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION spending_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  o operation;
  b budget;
BEGIN
  IF NEW.operation_id IS NOT NULL THEN
    SELECT x.* INTO o FROM operation x WHERE x.operation_id = NEW.operation_id AND x.tenant_id = NEW.tenant_id;
    IF NEW.amount > 0 AND (o.state IS DISTINCT FROM 'prepared' OR NOT EXISTS (SELECT FROM run r WHERE r.run_id = o.run_id AND r.run_id = NEW.run_id AND r.task_id = NEW.task_id AND r.tenant_id = o.tenant_id)) THEN
      RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'an operation is charged to the task that sends it, before it is sent';
    END IF;
    IF NEW.amount < 0 AND (o.state IS NULL OR o.state NOT IN ('prepared', 'not_done', 'refused')
       OR NEW.amount + coalesce((SELECT sum(x.amount) FROM spending x WHERE x.operation_id = NEW.operation_id AND x.tenant_id = NEW.tenant_id AND x.task_id = NEW.task_id AND x.unit = NEW.unit), 0) < 0) THEN
      RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'what was charged is given back once, for what was not done';
    END IF;
  END IF;
  UPDATE budget x SET spent = x.spent + NEW.amount WHERE x.task_id = NEW.task_id AND x.unit = NEW.unit AND x.tenant_id = NEW.tenant_id RETURNING * INTO b;
  IF NOT FOUND THEN
    INSERT INTO budget (tenant_id, task_id, unit, spent) VALUES (NEW.tenant_id, NEW.task_id, NEW.unit, NEW.amount) RETURNING * INTO b;
  END IF;
  -- what a step reports was spent already and is booked all the same; an operation can still be held back, and what undoes one is not
  IF NEW.operation_id IS NOT NULL AND NEW.amount > 0 AND o.compensates IS NULL AND b.spent > b.allowed THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'an operation is charged within the budget of its task';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION audit_chain() RETURNS trigger LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  -- one writer a lane at a time, so that every entry hashes the one before it; the number is drawn under the lock, so that it follows the chain
  PERFORM pg_advisory_xact_lock(hashtextextended(concat('audit:', NEW.tenant_id, ':', NEW.lane), 0));
  NEW.audit_id := nextval('audit_audit_id_seq');
  NEW.previous_hash := (SELECT a.hash FROM audit a WHERE a.tenant_id = NEW.tenant_id AND a.lane = NEW.lane ORDER BY a.audit_id DESC LIMIT 1);
  NEW.hash := sha256(coalesce(NEW.previous_hash, ''::bytea) || convert_to(audit_text(NEW.tenant_id, NEW.lane, NEW.audit_id, NEW.at, NEW.actor, NEW.action, NEW.target, NEW.detail), 'UTF8'));
  RETURN NEW;
END $$;

-- purpose: the outbox partition of an aggregate; the last byte of a UUIDv7 is random
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION outbox_partition_of(p_id uuid) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT (get_byte(uuid_send(p_id), 15) % 8)::smallint $$;

-- purpose: the outbox partition of a message that belongs to no aggregate, by its key
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION outbox_partition_for(p_key text) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT (hashtextextended(p_key, 0) & (8 - 1))::smallint $$;

-- purpose: the slot of a join that a branch is counted in, by its index: neighbours share one, so that a batch touches few
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION slot_of(p_idx int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT (p_idx / 64) % 16 $$;

-- purpose: the next number of a run's published events; drawn under the run's row lock, so that it follows commit order
-- transition: none
-- fenced by: the caller
-- locks: the run
CREATE FUNCTION next_sequence(p_run uuid) RETURNS bigint LANGUAGE sql VOLATILE SET search_path = stanchion, pg_temp AS $$
  UPDATE run SET seq = seq + 1 WHERE run_id = p_run RETURNING seq
$$;

-- purpose: give up versions that were begun so long ago and never became available: their writer died, or was refused
-- transition: artifact_version pending -> deleted
-- fenced by: each version's state under its lock; a flip takes the same
-- locks: versions (skipping locked ones)
CREATE FUNCTION abandon_versions(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int;
BEGIN
  WITH d AS (
    UPDATE artifact_version v SET state = 'deleted', version = v.version + 1, deleted_at = v_now WHERE (v.version_id, v.tenant_id) IN (
      SELECT x.version_id, x.tenant_id FROM artifact_version x WHERE x.state = 'pending' AND x.created_at < v_now - p_older ORDER BY x.created_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING v.*
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body) SELECT d.tenant_id, d.run_id, 'ArtifactAbandoned', d.version, v_now, 'sweeper', jsonb_strip_nulls(jsonb_build_object('artifact', d.version_id, 'step', d.step_id)) FROM d
  )
  SELECT count(*) INTO v_n FROM d;
  RETURN v_n;
END $$;

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

-- purpose: keep what was learned about an operation, whoever learned it and whether or not it settles anything
-- transition: none
-- fenced by: the caller
-- locks: the caller holds the operation
CREATE FUNCTION add_probe(o operation, p_by text, p_verdict text, p_conclusive boolean, p_detail jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO operation_probe (tenant_id, operation_id, number, by, verdict, conclusive, detail) VALUES (o.tenant_id, o.operation_id, o.probes + 1, p_by, p_verdict, p_conclusive, p_detail);
  UPDATE operation x SET probes = x.probes + 1, verified_at = clock(), updated_at = clock() WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id;
END $$;

-- purpose: expansion in a retried run, one step a branch: children that succeeded on the same item before are born with that result, the others are ready; returns the arrivals, for the caller to spread
-- transition: births: step succeeded (adopted) or ready
-- fenced by: the caller holds the fan-out's row
-- locks: only new rows
CREATE FUNCTION adopt_children(f step, p_first int, p_items jsonb, p_template jsonb, OUT o_arrivals arrival[], OUT o_done uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_feeds uuid[] := ARRAY(SELECT x::uuid FROM jsonb_array_elements_text(p_template->'feeds') x);
  v_old uuid := (SELECT b.o_fan FROM fan_before(f.step_id, p_first) b);
  v_ready uuid[];
BEGIN
  WITH i AS MATERIALIZED (
    SELECT uuidv7() AS step_id, p_first + x.n::int - 1 AS idx, x.v, (
      -- what answers for the child: itself, its last round, or the join of what it spawned; its item is what its first round was given
      SELECT o.step_id FROM step o WHERE o.fan_id = v_old AND o.idx = p_first + x.n - 1 AND o.tenant_id = f.tenant_id AND o.kind = 'step' AND coalesce(o.answers, o.node) = p_template->>'node' AND o.state = 'succeeded' AND o.replaced_by IS NULL
      AND x.v = (SELECT i.input FROM step i WHERE i.fan_id = v_old AND i.idx = o.idx AND i.tenant_id = f.tenant_id AND i.kind = 'step' AND i.node = p_template->>'node' ORDER BY i.round LIMIT 1) LIMIT 1) AS adopt
    FROM jsonb_array_elements(p_items) WITH ORDINALITY x(v, n)
  ), s AS (
    INSERT INTO step (tenant_id, step_id, run_id, fan_id, idx, state, node, queue, priority, max_attempts, feeds, workflow, workflow_version, input, timeout_ms, lease_ms, start_within_ms, total_ms, expires_at, holds, uncollected, created_at, updated_at)
    SELECT f.tenant_id, i.step_id, f.run_id, f.step_id, i.idx, CASE WHEN i.adopt IS NULL THEN 'ready' ELSE 'succeeded' END, p_template->>'node', p_template->>'queue', (p_template->>'priority')::int, (p_template->>'max_attempts')::int, v_feeds,
           f.workflow, f.workflow_version, i.v, (p_template->>'timeout_ms')::bigint, (p_template->>'lease_ms')::bigint,
           (p_template->>'start_within_ms')::bigint, (p_template->>'total_ms')::bigint, v_now + (p_template->>'total_ms')::bigint * interval '1 ms', coalesce((p_template->>'holds')::boolean, false), coalesce((p_template->>'uncollected')::boolean, false), v_now, v_now FROM i
  ), r AS (
    INSERT INTO result (tenant_id, step_id, fence, body, blob) SELECT f.tenant_id, i.step_id, NULL, o.body, o.blob FROM i JOIN result o ON o.step_id = i.adopt AND o.tenant_id = f.tenant_id
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, body)
    SELECT f.tenant_id, f.run_id, i.step_id, CASE WHEN i.adopt IS NULL THEN 'StepReady' ELSE 'StepAdopted' END, 0, v_now,
           jsonb_strip_nulls(jsonb_build_object('fan', f.step_id, 'idx', i.idx, 'adopted', i.adopt, 'state', CASE WHEN i.adopt IS NOT NULL THEN 'succeeded' END)) FROM i
  )
  SELECT array_agg(i.step_id) FILTER (WHERE i.adopt IS NULL), array_agg(i.step_id) FILTER (WHERE i.adopt IS NOT NULL),
    (SELECT array_agg(ROW(b, x.slot * 64, x.n, 0, 0)::arrival) FROM (SELECT slot_of(j.idx) AS slot, count(*)::int AS n FROM i j WHERE j.adopt IS NOT NULL GROUP BY 1) x, unnest(v_feeds) b)
  INTO v_ready, o_done, o_arrivals FROM i;
  o_done := coalesce(o_done, '{}');
  o_arrivals := coalesce(o_arrivals, '{}');
  PERFORM make_ready(v_ready);
END $$;

-- purpose: after a logical restore: transactions of this cluster come after all that the restored events name, or those would be in its future, shown to nobody; true if the cluster is another one
-- transition: none
-- fenced by: the system identifier that the database was last seen under
-- locks: the cluster's row, then the table of events, against writers
CREATE FUNCTION adopt_cluster() RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_here bigint := (SELECT c.system_identifier FROM pg_control_system() c);
  v_last xid8;
BEGIN
  PERFORM FROM cluster c WHERE c.system_identifier <> v_here FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  LOCK TABLE event IN SHARE ROW EXCLUSIVE MODE;
  v_last := (SELECT max(e.xid) FROM event e);
  IF v_last >= event_xid(pg_snapshot_xmax(pg_current_snapshot())) THEN
    EXECUTE format('CREATE OR REPLACE FUNCTION event_xid(p_xid xid8) RETURNS xid8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT ((p_xid::text::numeric + %s)::text)::xid8 $f$', v_last);
  END IF;
  UPDATE cluster SET system_identifier = v_here, adopted_at = clock();
  RETURN true;
END $$;

-- purpose: give steps that were planned as settled the results that they take over; returns their arrivals where they are awaited, for the caller to spread
-- transition: none (they were born succeeded or skipped)
-- fenced by: the caller inserted them in this transaction
-- locks: only new rows
CREATE FUNCTION adopt_steps(p_steps jsonb, OUT o_arrivals arrival[], OUT o_done uuid[], OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  WITH p AS MATERIALIZED (
    SELECT x.tenant_id, x.step_id, x.adopt FROM jsonb_to_recordset(p_steps) AS x(tenant_id uuid, step_id uuid, adopt uuid) WHERE x.adopt IS NOT NULL
  ), r AS (
    INSERT INTO result (tenant_id, step_id, fence, body, blob) SELECT p.tenant_id, p.step_id, NULL, o.body, o.blob FROM p JOIN result o ON o.step_id = p.adopt AND o.tenant_id = p.tenant_id
  )
  SELECT coalesce(array_agg(p.step_id), '{}') INTO o_done FROM p;
  SELECT coalesce(array_agg(a), '{}') INTO o_arrivals FROM step s, unnest(arrivals_of(s, CASE s.state WHEN 'skipped' THEN 'skipped' ELSE 'ok' END)) a WHERE s.step_id = ANY (o_done);
  SELECT coalesce(array_agg(ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath), '{}') INTO o_after FROM step s WHERE s.step_id = ANY (o_done) AND s.counts;
END $$;

-- purpose: the decision becomes the result of the step that waits for it; with on_timeout fail, silence makes the step fail
-- transition: step waiting -> succeeded|failed
-- fenced by: the caller holds the step and the approval that it asked with its last fence
-- locks: those of choose and step_failed
CREATE FUNCTION answer_step(a approval, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_fails boolean := a.state = 'expired' AND a.on_timeout = 'fail';
  s step;
  d record;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_settled := '{}';
  UPDATE step x SET state = CASE WHEN v_fails THEN 'failed' ELSE 'succeeded' END, version = x.version + 1, updated_at = v_now
  WHERE x.step_id = a.step_id AND x.tenant_id = a.tenant_id AND x.state = 'waiting' AND x.fence = a.fence RETURNING * INTO s;
  IF NOT FOUND THEN RETURN; END IF;
  DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind = 'approval';
  IF v_fails THEN
    SELECT * INTO d FROM step_failed(s, jsonb_build_object('code', 'E-APR-02', 'what', 'nobody decided in time', 'approval', a.approval_id));
    o_arrivals := d.o_arrivals;
    o_after := d.o_after;
    o_settled := s.step_id || d.o_skipped;
    RETURN;
  END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepAnswered', s.version, v_now, a.decided_by, jsonb_build_object('approval', a.approval_id, 'outcome', a.state));
  INSERT INTO result (tenant_id, step_id, fence, body) VALUES (s.tenant_id, s.step_id, s.fence, jsonb_build_object('approval_id', a.approval_id, 'approved', a.state = 'granted', 'outcome', a.state, 'reason', a.reason, 'edited', a.edited_by IS NOT NULL, 'payload', CASE WHEN a.edited_by IS NOT NULL AND a.state = 'granted' THEN a.payload END,
    'by', (SELECT coalesce(jsonb_agg(v.subject ORDER BY v.number), '[]') FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.vote = CASE a.state WHEN 'granted' THEN 'approve' ELSE 'reject' END)));
  o_arrivals := arrivals_of(s, 'ok');
  o_settled := ARRAY[s.step_id];
  IF s.counts THEN o_after := ARRAY[ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath]; END IF;
  IF s.chooses IS NOT NULL THEN
    SELECT * INTO d FROM choose(s, NULL);
    o_arrivals := o_arrivals || d.o_arrivals;
    o_after := o_after || d.o_after;
  END IF;
END $$;

-- purpose: what answers for a node of a run: of each branch the step of the newest round that stands for it and has a result, in the order of the branches from the outermost inwards; its fan-outs are looked for as fan_in does
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION answers_of(p_tenant uuid, p_run uuid, p_node text, p_scope text[], p_limit int) RETURNS TABLE (step_id uuid, path int[], body jsonb, blob bytea) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH RECURSIVE f(fan_id, path, depth) AS (
    SELECT NULL::uuid, '{}'::int[], 0
    UNION ALL
    SELECT n.step_id, CASE WHEN f.depth > 0 THEN f.path || n.idx ELSE f.path END, f.depth + 1
    FROM f, LATERAL (
      SELECT DISTINCT ON (s.idx) s.idx, s.step_id FROM step s
      WHERE (s.fan_id = f.fan_id OR (f.fan_id IS NULL AND s.run_id = p_run AND s.fan_id IS NULL)) AND s.tenant_id = p_tenant AND s.kind = 'fan' AND s.node = p_scope[f.depth + 1]
      ORDER BY s.idx, s.round DESC, s.step_id DESC) n
    WHERE f.depth < cardinality(p_scope)
  ), a AS (
    SELECT n.step_id, f.path || n.idx AS path FROM f, LATERAL (
      SELECT DISTINCT ON (s.idx) s.idx, s.step_id, s.state FROM step s
      WHERE (s.fan_id = f.fan_id OR (f.fan_id IS NULL AND s.run_id = p_run AND s.fan_id IS NULL)) AND s.tenant_id = p_tenant AND s.kind = 'step' AND coalesce(s.answers, s.node) = p_node AND s.replaced_by IS NULL
      ORDER BY s.idx, s.round DESC, s.step_id DESC) n
    WHERE f.depth = cardinality(p_scope) AND n.state = 'succeeded' ORDER BY 2 LIMIT p_limit
  )
  SELECT a.step_id, a.path, r.body, r.blob FROM a, LATERAL (SELECT x.body, x.blob FROM result x WHERE x.step_id = a.step_id AND x.tenant_id = p_tenant LIMIT 1) r ORDER BY a.path
$$;

-- purpose: why an operation may not go out under an approval; NULL when it may. The one place where what is bound is compared
-- transition: none
-- fenced by: nothing: whoever acts on the answer holds both rows
-- locks: none
CREATE FUNCTION approval_fault(a approval, o operation) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE
    WHEN a.tenant_id IS DISTINCT FROM o.tenant_id OR a.task_id IS DISTINCT FROM (SELECT r.task_id FROM run r WHERE r.run_id = o.run_id AND r.tenant_id = o.tenant_id)
      OR o.scope_id IS DISTINCT FROM o.tenant_id AND a.task_id IS DISTINCT FROM o.task_id THEN 'another task'
    WHEN a.operation_kind IS DISTINCT FROM o.kind THEN 'another kind of operation'
    WHEN a.operation_key IS NOT NULL AND a.operation_key <> o.key THEN 'another key'
    WHEN a.payload_hash IS DISTINCT FROM o.payload_hash THEN 'another payload'
    WHEN a.state = 'spent' AND a.spent_by IS DISTINCT FROM o.operation_id THEN 'spent'
    WHEN a.state NOT IN ('granted', 'spent') THEN a.state
    WHEN a.expires_at <= clock() THEN 'expired'
    WHEN votes_for(a) < a.needs THEN 'votes'
    WHEN a.resource_id IS NOT NULL AND NOT is_current(a.tenant_id, a.resource_id, a.resource_sha256) THEN 'another version'
  END
$$;

-- purpose: what the world is told of an approval when the transaction concludes: whom it concerns and how it stands, not what is asked; with a reason the run ends with it
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION approval_news(a approval, p_type text, p_ends jsonb DEFAULT NULL) RETURNS aftermath LANGUAGE sql IMMUTABLE SET search_path = stanchion, pg_temp AS $$
  SELECT ROW(a.run_id, 0, p_ends, p_type, jsonb_strip_nulls(jsonb_build_object('approval_id', a.approval_id, 'step_id', a.step_id, 'node', a.node, 'state', a.state, 'operation', a.operation_kind)))::aftermath
$$;

-- purpose: what waits for a person's decision at this moment, the least time left first
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION approvals_for(p_tenant uuid, p_person uuid, p_after uuid, p_limit int) RETURNS TABLE (approval_id uuid) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH me AS MATERIALIZED (
    SELECT p.name, 'person:' || p.name AS subject, ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id) AS teams,
      ARRAY(SELECT v.approval_id FROM approval_vote v WHERE v.delegate_to = p.name AND v.tenant_id = p.tenant_id) AS passed_on
    FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant
  )
  SELECT o.approval_id FROM (
    -- most are for others: that is seen by the row alone, before anything is looked up for it
    SELECT a.approval_id, a.expires_at, a AS whole FROM approval a, me
    WHERE a.tenant_id = p_tenant AND a.state = 'requested' AND a.expires_at > clock()
      AND (p_after IS NULL OR (a.expires_at, a.approval_id) > ((SELECT l.expires_at FROM approval l WHERE l.approval_id = p_after AND l.tenant_id = p_tenant), p_after))
      AND (a.people = '{}' AND a.teams = '{}' OR me.name = ANY (a.people) OR a.teams && me.teams OR a.approval_id = ANY (me.passed_on))
      AND NOT (a.four_eyes AND (me.subject = a.requested_by OR me.subject IS NOT DISTINCT FROM a.edited_by))
    ORDER BY a.expires_at, a.approval_id OFFSET 0  -- sorted before it is looked at, so that a page looks at no more than a page
  ) o
  WHERE no_say(o.whole, p_person) IS NULL ORDER BY o.expires_at, o.approval_id LIMIT p_limit
$$;

-- purpose: the arrivals of one settled step at the barriers that it feeds; a fan-out itself feeds none, its branches do
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION arrivals_of(s step, p_how text) RETURNS arrival[] LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT coalesce(array_agg(ROW(f, s.idx, (p_how = 'ok')::int, (p_how = 'bad')::int, (p_how = 'skipped')::int)::arrival), '{}') FROM unnest(CASE WHEN s.kind = 'step' THEN s.feeds END) f
$$;

-- purpose: count what settled at the barriers it feeds; open, fail or close them, and follow what that settles in turn
-- transition: barrier waiting -> released|failed; held step pending -> ready|waiting|skipped; fan-out waiting -> succeeded
-- fenced by: the caller, which settled the arriving steps in this transaction
-- locks: in each wave slots by (barrier, slot), then barriers, the younger first, then the steps they hold; never a run: that is the aftermath, which the caller concludes last
CREATE FUNCTION arrive(p_arrivals arrival[], p_done uuid[], OUT o_ready uuid[], OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_next arrival[] := p_arrivals;
  v_wave arrival[];
  v_done uuid[] := p_done;
  v_counted barrier[];
  c barrier_count;
  b barrier;
  d record;
BEGIN
  o_ready := '{}';
  o_after := '{}';
  WHILE cardinality(v_next) > 0 LOOP
    -- what a step comes after is counted before any join: all that this transaction brings to a join is there when its slots are locked
    SELECT array_agg(x.a) FILTER (WHERE x.kind = 'after'), array_agg(x.a) FILTER (WHERE x.kind <> 'after') INTO v_wave, v_next
    FROM (SELECT a, (SELECT k.kind FROM barrier k WHERE k.barrier_id = a.barrier_id) AS kind FROM unnest(v_next) a) x;
    IF v_wave IS NULL THEN
      v_wave := v_next;
      v_next := '{}';
    END IF;
    v_next := coalesce(v_next, '{}');
    -- all barriers of the wave are counted, the younger first, before the first held step is touched
    v_counted := '{}';
    FOREACH c IN ARRAY count_slots(v_wave) LOOP
      -- a slot that is not empty yet, and nothing but successes: the barrier's row is left alone
      CONTINUE WHEN c.slotted AND c.full_slots = 0 AND c.bad = 0 AND c.skipped = 0;
      v_counted := v_counted || count_barrier(c);
    END LOOP;
    FOREACH b IN ARRAY v_counted LOOP
      SELECT * INTO d FROM decide_barrier(b, v_done);
      IF d.o_ready IS NOT NULL THEN o_ready := o_ready || d.o_ready; END IF;
      o_after := o_after || d.o_after;
      v_next := v_next || d.o_arrivals;
      v_done := v_done || d.o_skipped;
    END LOOP;
  END LOOP;
END $$;

-- purpose: what no batch of this kind takes in for now
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION aside(p_kind text) RETURNS uuid[] LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT ARRAY(SELECT x.target_id FROM set_aside x WHERE x.kind = p_kind AND x.retry_at > clock())
$$;

-- purpose: an attempt asks people: what it shows them is bound, its lease ends, and its step waits without a worker
-- transition: step leased|running -> waiting; attempt -> succeeded; approval -> requested (born); task running -> awaiting_approval
-- fenced by: the step's own fence
-- locks: the step, then its run and the task
CREATE FUNCTION ask(p_worker uuid, p_step uuid, p_fence bigint, p_approval uuid, p_ask jsonb, p_payload jsonb, p_hash bytea) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_fresh boolean;
  v_version uuid := (p_ask->>'resource')::uuid;
  v_sha256 bytea;
  v_by text;
  s step;
  a approval;
BEGIN
  SELECT x.state = 'leased' INTO v_fresh FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  v_now := clock();
  UPDATE step x SET state = 'waiting', version = x.version + 1, attempts = x.attempts + 1, proof = p_fence, updated_at = v_now
  WHERE x.step_id = p_step AND x.state IN ('leased', 'running') AND x.doubts = 0 AND x.fence = p_fence RETURNING * INTO s;
  IF NOT FOUND THEN
    RETURN refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], '{}', 'ask', 'succeeded') <> '{}';
  END IF;
  DELETE FROM timer t WHERE t.target_id = p_step AND (s.start_within_ms IS NOT NULL OR s.expires_at IS NOT NULL);
  UPDATE attempt t SET state = 'succeeded', ended_at = v_now, counted = true, started_at = coalesce(t.started_at, t.granted_at) WHERE t.step_id = p_step AND t.fence = p_fence;
  SELECT t.submitted_by INTO v_by FROM run r JOIN task t ON t.task_id = r.task_id AND t.tenant_id = r.tenant_id WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
  IF v_version IS NOT NULL THEN
    SELECT v.sha256 INTO v_sha256 FROM artifact_version v JOIN run r ON r.run_id = s.run_id AND r.tenant_id = s.tenant_id
    WHERE v.version_id = v_version AND v.tenant_id = s.tenant_id AND v.task_id = r.task_id AND v.state = 'available';
    IF v_sha256 IS NULL OR NOT is_current(s.tenant_id, v_version, v_sha256) THEN
      RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-07 the version that people are asked about is not the latest of its name in this task';
    END IF;
  END IF;
  INSERT INTO approval (tenant_id, approval_id, task_id, run_id, step_id, fence, node, state, question, summary, payload, payload_hash, operation_kind, operation_key, resource_id, resource_sha256,
    people, teams, needs, four_eyes, on_timeout, on_rejected, requested_by, created_at, updated_at, expires_at)
  SELECT s.tenant_id, p_approval, r.task_id, s.run_id, s.step_id, s.fence, s.node, 'requested', p_ask->>'question', p_ask->>'summary', p_payload, p_hash, p_ask->>'operation', p_ask->>'key', v_version, v_sha256,
    ARRAY(SELECT jsonb_array_elements_text(p_ask->'people')), ARRAY(SELECT jsonb_array_elements_text(p_ask->'teams')), (p_ask->>'needs')::smallint, (p_ask->>'four_eyes')::boolean, p_ask->>'on_timeout', coalesce(p_ask->>'on_rejected', CASE WHEN s.fan_id IS NULL THEN 'end' ELSE 'continue' END), v_by,
    v_now, v_now, v_now + (p_ask->>'within_ms')::bigint * interval '1 ms'
  FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id RETURNING * INTO a;
  INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id) VALUES (s.tenant_id, 'approval', a.expires_at, s.run_id, s.step_id);
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
  SELECT s.tenant_id, s.run_id, s.step_id, k.kind, s.version, s.fence, v_now, CASE k.kind WHEN 'StepAsked' THEN jsonb_build_object('approval', a.approval_id) END
  FROM (VALUES ('StepStarted'), ('StepAsked')) k(kind) WHERE v_fresh OR k.kind = 'StepAsked';
  PERFORM note_request(a);
  PERFORM conclude(ARRAY[approval_news(a, 'ApprovalRequested')]);
  RETURN true;
END $$;

-- purpose: ask for content to be removed that no available version of the tenant names; returns how many are asked for anew
-- transition: none
-- fenced by: the object's lock: whoever names the content takes it too
-- locks: objects by hash
CREATE FUNCTION ask_removals(p_tenant uuid, p_hashes bytea[]) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int := 0;
  v_hash bytea;
BEGIN
  FOR v_hash IN SELECT DISTINCT h FROM unnest(p_hashes) h ORDER BY h LOOP
    -- most of what a sweep looks at is named: only what is not is worth a lock, of which a transaction has a few thousand
    CONTINUE WHEN EXISTS (SELECT FROM artifact_version v WHERE v.sha256 = v_hash AND v.tenant_id = p_tenant AND v.state = 'available');
    PERFORM lock_object(p_tenant, v_hash);
    IF NOT EXISTS (SELECT FROM artifact_version v WHERE v.sha256 = v_hash AND v.tenant_id = p_tenant AND v.state = 'available') THEN
      INSERT INTO object_removal (tenant_id, sha256) VALUES (p_tenant, v_hash)
      ON CONFLICT (sha256, tenant_id) DO UPDATE SET asked_at = clock(), begun_at = NULL, removed_at = NULL WHERE object_removal.removed_at IS NOT NULL;
      IF FOUND THEN v_n := v_n + 1; END IF;
    END IF;
  END LOOP;
  RETURN v_n;
END $$;

-- purpose: leave the expansion of a fan-out to the planner: a due row is the fact, a message the hint
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION ask_to_expand(s step) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (s.tenant_id, 'expand', clock(), s.run_id, s.step_id, 0);
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  VALUES (outbox_partition_of(s.run_id), s.tenant_id, 'stanchion.orchestrator.commands.v1', s.run_id::text, 'PlanRun', s.run_id::text, jsonb_build_object('run_id', s.run_id)::text);
$$;

-- purpose: an entry of the audit log as the one text that its hash covers: a JSON array, so that no two entries can read alike
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION audit_text(p_tenant uuid, p_lane smallint, p_id bigint, p_at timestamptz, p_actor text, p_action text, p_target text, p_detail jsonb) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT jsonb_build_array(p_tenant, p_lane, p_id, to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), p_actor, p_action, p_target, p_detail)::text
$$;

-- purpose: whose key this is and what it may do
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION authenticate(p_hash bytea) RETURNS TABLE (tenant_id uuid, tenant text, key_name text, scopes text[]) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT k.tenant_id, t.name, k.name, k.scopes FROM api_key k JOIN tenant t ON t.tenant_id = k.tenant_id
  WHERE k.secret_hash = p_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock())
$$;

-- purpose: whose session this is and what they may do now; one probe by the hash, whoever asks; its use is noted once a minute
-- transition: none
-- fenced by: nothing
-- locks: the session's row, at most once a minute
CREATE FUNCTION authenticate_session(p_hash bytea, p_kind text) RETURNS TABLE (tenant_id uuid, tenant text, name text, role text, rights text[], teams text[], person_id uuid, session_id uuid, csrf_secret bytea, expires_at timestamptz)
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  s session;
BEGIN
  SELECT * INTO s FROM session x WHERE x.token_hash = p_hash AND x.kind = p_kind AND x.revoked_at IS NULL AND x.expires_at > clock() AND x.used_at + x.idle_seconds * interval '1 s' > clock();
  IF NOT FOUND THEN RETURN; END IF;
  IF s.used_at < clock() - interval '1 minute' THEN
    UPDATE session x SET used_at = clock() WHERE x.session_id = s.session_id AND x.tenant_id = s.tenant_id AND x.revoked_at IS NULL;
  END IF;
  RETURN QUERY SELECT s.tenant_id, t.name, p.name, p.role, p.rights, ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id ORDER BY m.team), p.person_id, s.session_id, s.csrf_secret, s.expires_at
    FROM person p JOIN tenant t ON t.tenant_id = p.tenant_id WHERE p.person_id = s.person_id AND p.tenant_id = s.tenant_id AND p.disabled_at IS NULL;
END $$;

-- purpose: a task awaits approval while anything of its live run is asked, and runs on when nothing is
-- transition: task running -> awaiting_approval, awaiting_approval -> running
-- fenced by: the caller holds the runs: whoever asks or decides takes them before it ends
-- locks: tasks by id
CREATE FUNCTION await_people(p_runs uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  x record;
BEGIN
  FOR x IN
    SELECT r.tenant_id, r.run_id, r.task_id, EXISTS (SELECT FROM approval a WHERE a.run_id = r.run_id AND a.state = 'requested') AS asked
    FROM run r WHERE r.run_id = ANY (p_runs) AND r.state IN ('created', 'running') ORDER BY r.task_id
  LOOP
    WITH u AS (
      UPDATE task t SET state = CASE WHEN x.asked THEN 'awaiting_approval' ELSE 'running' END, version = t.version + 1, updated_at = v_now
      WHERE t.task_id = x.task_id AND t.tenant_id = x.tenant_id AND t.state = CASE WHEN x.asked THEN 'running' ELSE 'awaiting_approval' END RETURNING t.version
    )
    INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT x.tenant_id, x.run_id, CASE WHEN x.asked THEN 'TaskAwaitingApproval' ELSE 'TaskAnswered' END, u.version, v_now FROM u;
  END LOOP;
END $$;

-- purpose: begin a version of an artifact under a lease, before any byte is stored; NULL: the lease is not the current one
-- transition: artifact_version born pending
-- fenced by: the step's fence; a stale writer is refused, and recorded
-- locks: the step, then the artifact
CREATE FUNCTION begin_artifact(p_worker uuid, p_step uuid, p_fence bigint, p_name text, p_media_type text, p_made_from uuid[]) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT x.* INTO s FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  IF NOT FOUND OR s.fence <> p_fence OR s.state NOT IN ('leased', 'running') THEN
    PERFORM refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], NULL, 'begin_artifact', '');
    RETURN NULL;
  END IF;
  RETURN insert_version(s.tenant_id, (SELECT r.task_id FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id), s.run_id, s.step_id, s.fence, NULL, p_name, p_media_type, p_made_from);
END $$;

-- purpose: what to remove from the store now; from here on until it is noted as removed, no version can name this content
-- transition: none
-- fenced by: the removal's row, which a flip locks too
-- locks: removals (skipping locked ones)
CREATE FUNCTION begin_removals(p_again interval, p_limit int) RETURNS TABLE (tenant_id uuid, sha256 bytea) LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE object_removal r SET begun_at = clock() WHERE (r.sha256, r.tenant_id) IN (
    SELECT x.sha256, x.tenant_id FROM object_removal x WHERE x.removed_at IS NULL AND (x.begun_at IS NULL OR x.begun_at < clock() - p_again) ORDER BY x.asked_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED)
  RETURNING r.tenant_id, r.sha256
$$;

-- purpose: remember a sign-in that goes to a provider; those that never came back go
-- transition: none
-- fenced by: the primary key
-- locks: rows that go (skipping locked ones), a new row
CREATE FUNCTION begin_sign_in(p_tenant uuid, p_state bytea, p_binder bytea, p_nonce text, p_verifier text, p_return_to text, p_seconds int) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  DELETE FROM sign_in s USING (SELECT x.state_hash, x.tenant_id FROM sign_in x WHERE x.expires_at < (SELECT clock()) ORDER BY x.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED) old
  WHERE s.state_hash = old.state_hash AND s.tenant_id = old.tenant_id;
  INSERT INTO sign_in (tenant_id, state_hash, binder_hash, nonce, verifier, return_to, expires_at) VALUES (p_tenant, p_state, p_binder, p_nonce, p_verifier, p_return_to, clock() + p_seconds * interval '1 s')
$$;

-- purpose: begin a version of an artifact for a person or a key, before any byte is stored
-- transition: artifact_version born pending
-- fenced by: the task's row: retention has not been there
-- locks: the task (shared), then the artifact
CREATE FUNCTION begin_upload(p_tenant uuid, p_task uuid, p_name text, p_media_type text, p_made_from uuid[], p_actor text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  t task;
BEGIN
  SELECT x.* INTO t FROM task x WHERE x.task_id = p_task AND x.tenant_id = p_tenant FOR SHARE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  IF t.payload_removed_at IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-TASK-08 the payloads of this task were removed'; END IF;
  RETURN insert_version(p_tenant, p_task, t.run_id, NULL, NULL, p_actor, p_name, p_media_type, p_made_from);
END $$;

-- purpose: the steps of some branches of a fan-out of the run before, for the plan of a retried run: what stands for which node, and what it was given
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION branches_before(p_tenant uuid, p_fan uuid, p_first int, p_upto int) RETURNS TABLE (idx int, node text, step_id uuid, state text, round int, input jsonb, input_blob bytea, replaced boolean, own boolean)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.idx, coalesce(s.answers, s.node), s.step_id, CASE WHEN s.state = 'succeeded' AND has_lapsed(s.tenant_id, s.step_id) THEN 'lapsed' ELSE s.state END, s.round, s.input, s.input_blob, s.replaced_by IS NOT NULL, s.answers IS NULL OR s.answers = s.node
  FROM step s WHERE s.fan_id = p_fan AND s.idx >= p_first AND s.idx < p_upto AND s.tenant_id = p_tenant
$$;

-- purpose: how a unit of a budget stands, in words
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION budget_text(p_unit text, p_allowed numeric, p_spent numeric, p_asked numeric DEFAULT NULL) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT concat_ws(', ', format('%s %s allowed', trim_scale(p_allowed), p_unit), format('%s spent', trim_scale(p_spent)), CASE WHEN p_asked IS NOT NULL THEN format('%s asked for', trim_scale(p_asked)) END)
$$;

-- purpose: park messages that can't be handled, with their bytes, position and reason; parking the same twice is one row
-- transition: none
-- fenced by: nothing
-- locks: only new rows
CREATE FUNCTION bury(p_letters jsonb) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  INSERT INTO dead_letter (tenant_id, topic, partition, "offset", key, value, headers, code, reason)
  SELECT x.tenant_id, x.topic, x.partition, x."offset", decode(x.key, 'base64'), decode(x.value, 'base64'), x.headers, x.code, x.reason
  FROM jsonb_to_recordset(p_letters) AS x(tenant_id uuid, topic text, partition int, "offset" bigint, key text, value text, headers jsonb, code text, reason text)
  WHERE NOT EXISTS (SELECT FROM dead_letter d WHERE d.topic = x.topic AND d.partition = x.partition AND d."offset" = x."offset" AND d.value IS NOT DISTINCT FROM decode(x.value, 'base64'));
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: barriers that nobody waits behind any more
-- transition: barrier waiting -> cancelled
-- fenced by: the barrier's state
-- locks: barriers
CREATE FUNCTION cancel_barriers(p_barriers uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  DELETE FROM timer t WHERE t.target_id = ANY (p_barriers);
  WITH u AS (
    UPDATE barrier x SET state = 'cancelled', version = x.version + 1 WHERE x.barrier_id = ANY (p_barriers) AND x.state = 'waiting' RETURNING x.*
  )
  INSERT INTO event (tenant_id, run_id, kind, version, body)
  SELECT u.tenant_id, u.run_id, 'BarrierCancelled', u.version, jsonb_build_object('barrier', u.barrier_id, 'succeeded', u.succeeded, 'failed', u.failed, 'skipped', u.skipped) FROM u;
END $$;

-- purpose: cancel a task for whoever asked on Kafka, and answer in the same transaction; the same message again changes nothing and gets the same answer, another one gets the answer of its time
-- transition: those of cancel_task
-- fenced by: the unique key of inbox (message, consumer, tenant): a message is applied once, also when the task has a new run by then
-- locks: the inbox's row, then the run, then the task; the audit chain last
CREATE FUNCTION cancel_by_message(p_tenant uuid, p_task uuid, p_message text, p_reason text, p_actor text, p_reply jsonb, p_missing jsonb, p_too_late jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_state text := 'missing';
  v_answer jsonb;
BEGIN
  -- a consumer of its own: an id that a submission used as well stands for another command there
  INSERT INTO inbox (tenant_id, message_id, consumer, subject, at) VALUES (p_tenant, p_message, 'task-service.cancel', p_task, clock()) ON CONFLICT DO NOTHING;
  IF FOUND THEN
    IF EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) THEN
      v_state := cancel_task(p_tenant, p_task, p_reason, p_actor);
    END IF;
    v_answer := jsonb_build_object('state', v_state, 'type', CASE WHEN v_state IN ('cancelling', 'cancelled') THEN 'TaskCancelling' ELSE 'TaskRejected' END,
      'body', (CASE WHEN v_state IN ('cancelling', 'cancelled') THEN jsonb_build_object('task_id', p_task, 'state', v_state) WHEN v_state = 'missing' THEN p_missing ELSE p_too_late END)::text);
    UPDATE inbox i SET answer = v_answer WHERE i.message_id = p_message AND i.consumer = 'task-service.cancel' AND i.tenant_id = p_tenant;
  ELSE
    SELECT i.answer INTO v_answer FROM inbox i WHERE i.message_id = p_message AND i.consumer = 'task-service.cancel' AND i.tenant_id = p_tenant;
  END IF;
  PERFORM post(jsonb_build_array(p_reply || (v_answer - 'state')));
  RETURN v_answer->>'state';
END $$;

-- purpose: cancel those steps of some fan-outs that nobody holds and that wait for nothing but a worker, a retry or their expansion; what is about to send something again goes on
-- transition: step ready|retry_wait -> cancelled, or waiting for people; fan-out waiting -> cancelled before its first branch
-- fenced by: the step's state, looked at under its lock
-- locks: steps by id, skipping locked ones
CREATE FUNCTION cancel_pending(p_fans uuid[], p_limit int, p_reason jsonb) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ids uuid[] := ARRAY(
    SELECT s.step_id FROM step s WHERE s.fan_id = ANY (p_fans)
      AND (s.state IN ('ready', 'retry_wait') AND NOT EXISTS (SELECT FROM operation o WHERE o.step_id = s.step_id AND may_still_land(o)) OR (s.state = 'waiting' AND EXISTS (SELECT FROM timer t WHERE t.target_id = s.step_id AND t.kind IN ('expand', 'approval') AND (t.kind = 'approval' OR t.version = 0))))
    ORDER BY s.step_id LIMIT p_limit FOR NO KEY UPDATE OF s SKIP LOCKED);
BEGIN
  RETURN CASE WHEN v_ids = '{}' THEN v_ids ELSE cancel_steps(v_ids, p_reason) END;
END $$;

-- purpose: cancel steps, and take from their holders those that run
-- transition: step pending|ready|retry_wait|waiting|leased|running -> cancelled, or unknown (what may have done something); attempt -> superseded
-- fenced by: for held steps the run being in cancelling (the canceller)
-- locks: steps by id, skipping locked ones
CREATE FUNCTION cancel_steps(p_steps uuid[], p_reason jsonb) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  d step;
  v_ids uuid[] := ARRAY(
    SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND s.state IN ('pending', 'ready', 'retry_wait', 'waiting', 'leased', 'running') ORDER BY s.step_id FOR NO KEY UPDATE SKIP LOCKED);
BEGIN
  IF v_ids = '{}' THEN RETURN v_ids; END IF;
  FOR d IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) AND x.doubts = 0 AND x.state <> 'pending' AND EXISTS (SELECT FROM operation o WHERE o.step_id = x.step_id AND may_still_land(o)) ORDER BY x.step_id LOOP
    PERFORM doubt_unsent(d, p_reason);
    IF d.state NOT IN ('leased', 'running') THEN v_ids := array_remove(v_ids, d.step_id); END IF;
  END LOOP;
  -- what has sent something and does not know its fate is asked after before it ends
  FOR d IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) AND x.doubts > 0 ORDER BY x.step_id LOOP
    UPDATE attempt t SET state = 'superseded', ended_at = clock(), error = p_reason WHERE t.step_id = d.step_id AND t.ended_at IS NULL;
    PERFORM doubt_step(d, -2, 'canceller', 0, p_reason);
    v_ids := array_remove(v_ids, d.step_id);
  END LOOP;
  v_now := clock();
  DELETE FROM ready y WHERE y.step_id = ANY (v_ids);
  DELETE FROM timer t WHERE t.target_id = ANY (v_ids);
  WITH u AS (
    UPDATE step s SET state = 'cancelled', version = s.version + 1, updated_at = v_now, proof = CASE WHEN s.state IN ('leased', 'running') THEN -2 ELSE 0 END WHERE s.step_id = ANY (v_ids)
    RETURNING s.tenant_id, s.run_id, s.step_id, s.version, CASE WHEN old.state IN ('leased', 'running') THEN s.fence END AS fence
  ), a AS (
    UPDATE attempt t SET state = 'superseded', ended_at = v_now, error = p_reason WHERE t.step_id = ANY (v_ids) AND t.ended_at IS NULL
  )
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body) SELECT u.tenant_id, u.run_id, u.step_id, 'StepCancelled', u.version, u.fence, v_now, 'canceller', p_reason FROM u;
  RETURN v_ids;
END $$;

-- purpose: ask for a task to be cancelled; ready steps end with the next sweep, running ones learn it at their next heartbeat
-- transition: task accepted|running|awaiting_approval -> cancelling; run created|running -> cancelling
-- fenced by: nothing
-- locks: the run, then the task; the audit chain last
CREATE FUNCTION cancel_task(p_tenant uuid, p_task uuid, p_reason text, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_run uuid := (SELECT t.run_id FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant);
  v_state text;
BEGIN
  IF v_run IS NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  IF wind_down(v_run, 'cancelled', jsonb_build_object('code', 'E-TASK-21', 'what', 'it was cancelled', 'why', p_reason, 'by', p_actor), p_actor) THEN
    INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'task.cancel', p_task::text, jsonb_build_object('reason', p_reason));
  END IF;
  SELECT t.state INTO v_state FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant;
  RETURN v_state;
END $$;

-- purpose: book what an operation costs before it goes out; what is booked already is not booked twice
-- transition: none
-- fenced by: the caller holds the operation and the budget, and presents the step's fence
-- locks: none beyond them
CREATE FUNCTION charge(o operation, p_task uuid, p_at timestamptz) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  x record;
BEGIN
  IF is_charged(o) THEN RETURN; END IF;
  FOR x IN SELECT c.key AS unit, trim_scale(c.value::numeric) AS amount FROM jsonb_each_text(o.cost) c ORDER BY c.key LOOP
    INSERT INTO spending (tenant_id, spending_id, task_id, run_id, step_id, fence, operation_id, unit, amount, at)
    VALUES (o.tenant_id, uuidv7(), p_task, o.run_id, o.step_id, o.fence, o.operation_id, x.unit, x.amount, p_at);
    PERFORM note_budget(o.tenant_id, o.run_id, o.step_id, 'BudgetSpent', o.fence, jsonb_build_object('unit', x.unit, 'amount', x.amount, 'operation', o.operation_id));
  END LOOP;
END $$;

-- purpose: start the step that was chosen with its input, and skip the other targets; without a choice all are skipped
-- transition: step pending -> ready (chosen) or skipped (the others)
-- fenced by: the caller holds the choosing step
-- locks: the targets in the order of the graph
CREATE FUNCTION choose(s step, p_chosen jsonb, OUT o_arrivals arrival[], OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_target uuid;
  v_now timestamptz := clock();
  t step;
  d record;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  FOREACH v_target IN ARRAY s.chooses LOOP
    UPDATE step x SET state = 'ready', version = x.version + 1, waits = 0, input = nullif(p_chosen->'input', 'null'), input_blob = decode(p_chosen->>'input_blob', 'hex'), updated_at = v_now, expires_at = v_now + x.total_ms * interval '1 ms'
    WHERE x.step_id = v_target AND x.node = p_chosen->>'node' AND x.state = 'pending' RETURNING * INTO t;
    IF FOUND THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version) VALUES (t.tenant_id, t.run_id, t.step_id, 'StepReady', t.version);
      PERFORM make_ready(ARRAY[t.step_id]);
    ELSE
      SELECT * INTO d FROM skip_step(v_target, jsonb_build_object('code', 'E-STEP-20', 'what', 'another step was chosen'), false);
      o_arrivals := o_arrivals || d.o_arrivals;
      o_after := o_after || d.o_after;
    END IF;
  END LOOP;
END $$;

-- purpose: a courier takes deliveries that are due, of each webhook as many as it still has hands for; a lease is a due time in the future, so one that is lost comes again by itself
-- transition: none: a delivery stays due until it was sent or given up
-- fenced by: the fence, which rises with each claim
-- locks: the deliveries, skipping locked ones
CREATE FUNCTION claim_deliveries(p_limit int, p_each int, p_busy uuid[], p_lease_ms int) RETURNS TABLE (delivery_id uuid, tenant_id uuid, tenant text, webhook_id uuid, url text, master text, event_id uuid, type text, subject text, body jsonb, fence bigint, tries int, created_at timestamptz)
LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  -- looked for webhook by webhook: an endpoint that hangs, and all that waits for it, hides nobody else's deliveries
  WITH claimed AS MATERIALIZED (
    SELECT y.* FROM webhook w, LATERAL (
      SELECT d.delivery_id, d.tenant_id, d.due_at FROM webhook_delivery d WHERE d.webhook_id = w.webhook_id AND d.state = 'due' AND d.due_at <= (SELECT clock())
      ORDER BY d.due_at LIMIT greatest(0, p_each - coalesce(cardinality(array_positions(p_busy, w.webhook_id)), 0)) FOR NO KEY UPDATE SKIP LOCKED) y
    ORDER BY y.due_at LIMIT p_limit
  )
  UPDATE webhook_delivery d SET fence = d.fence + 1, due_at = clock() + p_lease_ms * interval '1 ms'
  FROM claimed x JOIN tenant t ON t.tenant_id = x.tenant_id, webhook w
  WHERE d.delivery_id = x.delivery_id AND d.tenant_id = x.tenant_id AND w.webhook_id = d.webhook_id AND w.tenant_id = d.tenant_id
  RETURNING d.delivery_id, d.tenant_id, t.name, d.webhook_id, w.url, w.master, d.event_id, d.type, d.subject, d.body, d.fence, d.tries, d.created_at
$$;

-- purpose: one worker takes a job, by the fence that it was offered with; a second entry of the queue for it finds another fence
-- transition: maintenance job due -> running, or running -> running when its lease has expired
-- fenced by: the fence of the offer
-- locks: the job
CREATE FUNCTION claim_maintenance(p_kind text, p_key text, p_tenant uuid, p_fence bigint, p_worker text, p_lease_ms int) RETURNS TABLE (fence bigint, request jsonb, result jsonb) LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE maintenance_job j SET state = 'running', fence = j.fence + 1, worker = p_worker, started_at = coalesce(j.started_at, clock()), lease_until = clock() + p_lease_ms * interval '1 ms',
    tries = j.tries + CASE WHEN j.state = 'running' THEN 1 ELSE 0 END
  WHERE j.kind = p_kind AND j.key = p_key AND j.tenant_id = p_tenant AND j.fence = p_fence
    AND ((j.state = 'due' AND j.due_at <= clock()) OR (j.state = 'running' AND j.lease_until < clock()))
  RETURNING j.fence, j.request, j.result
$$;

-- purpose: the right to send a parked message again, given once unless it is asked for again; what the relay parked goes back into the outbox by itself
-- transition: none
-- fenced by: redriven_at
-- locks: the letter's row; the audit chain last
CREATE FUNCTION claim_redrive(p_tenant uuid, p_id uuid, p_again boolean, p_actor_tenant uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  d dead_letter;
BEGIN
  UPDATE dead_letter x SET redriven_at = clock() WHERE x.dead_letter_id = p_id AND x.tenant_id IS NOT DISTINCT FROM p_tenant AND (x.redriven_at IS NULL OR p_again) RETURNING * INTO d;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM put_back(ARRAY[p_id], p_actor_tenant);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_actor_tenant, p_actor, 'dead_letter.redrive', p_id::text, jsonb_build_object('topic', d.topic, 'again', p_again));
  RETURN true;
END $$;

-- purpose: all branches have settled at a join; when it was the last join of its fan-out, the fan-out itself is over
-- transition: fan-out waiting -> succeeded
-- fenced by: the caller
-- locks: the caller holds the barrier; then the fan-out's step
CREATE FUNCTION close_barrier(b barrier) RETURNS aftermath[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  UPDATE barrier x SET closed = true, sweep_at = NULL WHERE x.barrier_id = b.barrier_id;
  -- the fan-out's row orders two joins that close at the same moment
  PERFORM FROM step x WHERE x.step_id = b.fan_id FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM barrier x WHERE x.fan_id = b.fan_id AND NOT x.closed) THEN
    -- what it held and another join still waits for is let go by the sweep
    UPDATE barrier x SET sweep_at = clock() WHERE x.barrier_id = b.barrier_id AND x.on_failed = 'hold';
    RETURN '{}';
  END IF;
  UPDATE step x SET state = 'succeeded', version = x.version + 1, updated_at = clock() WHERE x.step_id = b.fan_id AND x.state = 'waiting' RETURNING * INTO s;
  IF NOT FOUND THEN RETURN '{}'; END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version) VALUES (s.tenant_id, s.run_id, s.step_id, 'FanClosed', s.version);
  RETURN ARRAY[ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath];
END $$;

-- purpose: of a run that ends without success and whose workflow asks for it, undo what it did, the newest first and one at a time; whatever could not be undone is told with the run's reason
-- transition: births of steps of kind undo
-- fenced by: the run being in cancelling; the caller holds its sweep
-- locks: operations of the run
CREATE FUNCTION compensate_next(r run) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  o operation;
BEGIN
  IF NOT coalesce((SELECT w.graph->'compensate' ? (CASE r.outcome WHEN 'rejected' THEN 'cancelled' ELSE r.outcome END) FROM workflow w WHERE w.name = r.workflow AND w.version = r.workflow_version), false) THEN RETURN false; END IF;
  SELECT x.* INTO o FROM operation x WHERE x.run_id = r.run_id AND x.state = 'confirmed' AND x.undo_kind IS NOT NULL AND x.compensates IS NULL
    AND NOT EXISTS (SELECT FROM step s WHERE s.run_id = r.run_id AND s.kind = 'undo' AND (s.input->>'operation')::uuid = x.operation_id)
  ORDER BY x.confirmed_at DESC, x.operation_id DESC LIMIT 1 FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM undo_operation(o, 'engine', format('the run is %s', r.outcome));
  RETURN true;
END $$;

-- purpose: a person wants an effect to be undone
-- transition: birth: step ready, of kind undo
-- fenced by: the operation being confirmed, and nothing undoing it already
-- locks: the operation; the audit chain last
CREATE FUNCTION compensate_operation(p_tenant uuid, p_operation uuid, p_reason text, p_actor text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_step uuid;
  o operation;
BEGIN
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such operation in this tenant'; END IF;
  SELECT s.step_id INTO v_step FROM step s WHERE s.run_id = o.run_id AND s.kind = 'undo' AND (s.input->>'operation')::uuid = o.operation_id AND s.state NOT IN ('failed', 'cancelled') LIMIT 1;
  IF FOUND THEN RETURN v_step; END IF;
  IF o.state <> 'confirmed' OR o.undo_kind IS NULL THEN RETURN NULL; END IF;
  v_step := undo_operation(o, p_actor, p_reason);
  PERFORM note_act(p_tenant, p_actor, 'operation.compensate', p_operation::text, jsonb_build_object('reason', p_reason));
  RETURN v_step;
END $$;

-- purpose: what a run that ended without success had done outside, and what became of it; nothing when it had done nothing
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION compensated_of(p_run uuid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT jsonb_build_object('effects', jsonb_agg(jsonb_build_object('operation', o.operation_id, 'kind', o.kind, 'key', o.key, 'state', o.state, 'reach', o.reach) ORDER BY o.confirmed_at))
  FROM operation o WHERE o.run_id = p_run AND o.state IN ('confirmed', 'compensated', 'unknown') AND o.compensates IS NULL HAVING count(*) > 0
$$;

-- purpose: accept the results of a batch, let them arrive where they are awaited, end runs that are done, lease what became ready to the same worker; a row `posted` tells that there is something for the relay
-- transition: step leased|running -> succeeded; attempt -> succeeded
-- fenced by: each step's own fence; a stale member of the batch is refused, recorded, and harms no other
-- locks: steps by id, then slots, barriers, held steps, runs, tasks
CREATE FUNCTION complete(p_worker uuid, p_steps uuid[], p_fences bigint[], p_bodies jsonb[], p_blobs bytea[],
  p_tenants uuid[], p_definitions text[], p_queues text[], p_room int, p_ttl_ms bigint) RETURNS SETOF leased
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_done uuid[];
  v_arrivals arrival[];
  v_after aftermath[];
  v_ready uuid[];
  v_more aftermath[];
  v_mine uuid[];
  v_late uuid[];
  v_choosers uuid[];
  v_timed uuid[];
  v_others uuid[];
  v_posted boolean;
  s step;
  v_x record;
BEGIN
  PERFORM FROM step s WHERE s.step_id = ANY (p_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  v_now := clock();
  -- the current fence is the law: a lease that ran out and that nobody took is still the holder's, and the event says so
  v_late := ARRAY(SELECT t.step_id FROM attempt t WHERE t.step_id = ANY (p_steps) AND t.ended_at IS NULL AND t.lease_until < v_now);
  WITH u AS (
    UPDATE step s SET state = 'succeeded', version = s.version + 1, attempts = s.attempts + 1, proof = p_fences[array_position(p_steps, s.step_id)], updated_at = v_now
    WHERE s.step_id = ANY (p_steps) AND s.state IN ('leased', 'running') AND s.doubts = 0 AND s.fence = p_fences[array_position(p_steps, s.step_id)]
    RETURNING s.tenant_id, s.step_id, s.run_id, s.feeds, s.idx, s.fence, s.version, s.counts, s.chooses, s.start_within_ms IS NOT NULL OR s.expires_at IS NOT NULL AS timed, old.state = 'leased' AS fresh, array_position(p_steps, s.step_id) AS i
  ), r AS (
    INSERT INTO result (tenant_id, step_id, fence, body, blob) SELECT u.tenant_id, u.step_id, u.fence, p_bodies[u.i], p_blobs[u.i] FROM u
  ), a AS (
    -- an attempt that is open belongs to the current fence, so these are exactly those of u
    UPDATE attempt t SET state = 'succeeded', ended_at = v_now, counted = true, started_at = coalesce(t.started_at, t.granted_at)
    WHERE t.step_id = ANY (p_steps) AND t.fence = p_fences[array_position(p_steps, t.step_id)] AND t.ended_at IS NULL
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
    SELECT u.tenant_id, u.run_id, u.step_id, k.kind, u.version, u.fence, v_now, CASE WHEN k.kind = 'StepSucceeded' AND u.step_id = ANY (v_late) THEN '{"late": true}'::jsonb END FROM u CROSS JOIN (VALUES ('StepStarted'), ('StepSucceeded')) k(kind) WHERE u.fresh OR k.kind = 'StepSucceeded'
  )
  SELECT array_agg(u.step_id), array_agg(ROW(u.run_id, 1, NULL, NULL, NULL)::aftermath) FILTER (WHERE u.counts), array_agg(u.step_id) FILTER (WHERE u.chooses IS NOT NULL), array_agg(u.step_id) FILTER (WHERE u.timed),
    (SELECT array_agg(ROW(x.f, x.slot * 64, x.n, 0, 0)::arrival) FROM (SELECT f, slot_of(v.idx) AS slot, count(*)::int AS n FROM u v, unnest(v.feeds) f GROUP BY 1, 2) x)
  INTO v_done, v_after, v_choosers, v_timed, v_arrivals FROM u;
  IF v_timed IS NOT NULL THEN DELETE FROM timer t WHERE t.target_id = ANY (v_timed); END IF;
  FOR s IN SELECT y.* FROM step y WHERE y.step_id = ANY (v_choosers) ORDER BY y.step_id LOOP
    -- it could have chosen with Go and returned a value: all its targets are skipped
    SELECT * INTO v_x FROM choose(s, NULL);
    v_arrivals := v_arrivals || v_x.o_arrivals;
    v_after := v_after || v_x.o_after;
  END LOOP;
  IF v_arrivals IS NOT NULL THEN
    SELECT a.o_ready, a.o_after INTO v_ready, v_more FROM arrive(v_arrivals, v_done) a;
    v_after := v_after || v_more;
    IF cardinality(v_ready) > 0 THEN
      -- what became ready goes to the worker that is here, when it serves it: no trip through the broker
      SELECT array_agg(x.step_id) INTO v_mine FROM (
        SELECT s.step_id FROM step s WHERE s.step_id = ANY (v_ready) AND s.queue = ANY (p_queues) AND s.workflow || '@' || s.workflow_version = ANY (p_definitions)
          AND (p_tenants IS NULL OR s.tenant_id = ANY (p_tenants)) ORDER BY s.step_id LIMIT p_room) x;
      v_others := ARRAY(SELECT u FROM unnest(v_ready) u WHERE u <> ALL (coalesce(v_mine, '{}')));
      PERFORM make_ready(v_others);
    END IF;
  END IF;
  v_posted := conclude(v_after) OR cardinality(v_others) > 0;
  IF coalesce(cardinality(v_done), 0) < cardinality(p_steps) THEN
    v_done := v_done || refuse(p_worker, p_steps, p_fences, v_done, 'complete', 'succeeded');
  END IF;
  RETURN QUERY SELECT d.outcome, NULL::uuid, NULL::uuid, NULL::uuid, d.id, NULL::bigint, NULL, NULL::int, NULL, NULL::uuid, NULL::int, NULL::int, NULL::int, NULL::int, NULL::boolean, NULL::bigint, NULL::bigint, NULL::jsonb, NULL::bytea, NULL::uuid[], NULL::jsonb
    FROM (SELECT 'done', u FROM unnest(v_done) u UNION ALL SELECT 'posted', NULL WHERE v_posted) d(outcome, id);
  IF v_mine IS NOT NULL THEN
    RETURN QUERY SELECT * FROM lease(p_worker, p_tenants, p_definitions, p_queues, v_mine, p_ttl_ms, p_room);
    -- what the lease left out (its run was paused meanwhile) must still be found by others; an offer of it may go a moment later
    PERFORM make_ready(ARRAY(SELECT s.step_id FROM step s WHERE s.step_id = ANY (v_mine) AND s.state = 'ready'));
  END IF;
END $$;

-- purpose: accept a result that steers: go to chosen steps, go round again, or replace the step by a fan-out and its join
-- transition: step leased|running -> succeeded; chosen steps pending -> ready, others -> skipped; births of the new plan
-- fenced by: the step's own fence
-- locks: the step, then either its run (a plan of new steps arrives nowhere), or slots, barriers, held steps, its run, its task
CREATE FUNCTION complete_with_plan(p_worker uuid, p_step uuid, p_fence bigint, p_body jsonb, p_blob bytea, p_plan jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  s step;
  v_fresh boolean;
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
  v_late boolean;
  d record;
  v_stand_in uuid := (p_plan->>'stand_in')::uuid;
  v_new_counts int;
BEGIN
  SELECT x.state = 'leased' INTO v_fresh FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  v_now := clock();
  UPDATE step x SET state = 'succeeded', version = x.version + 1, attempts = x.attempts + 1, proof = p_fence, updated_at = v_now, replaced_by = v_stand_in
  WHERE x.step_id = p_step AND x.state IN ('leased', 'running') AND x.doubts = 0 AND x.fence = p_fence RETURNING * INTO s;
  IF NOT FOUND THEN
    RETURN refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], '{}', 'complete', 'succeeded') <> '{}';
  END IF;
  DELETE FROM timer t WHERE t.target_id = p_step AND (s.start_within_ms IS NOT NULL OR s.expires_at IS NOT NULL);
  UPDATE attempt t SET state = 'succeeded', ended_at = v_now, counted = true, started_at = coalesce(t.started_at, t.granted_at) WHERE t.step_id = p_step AND t.fence = p_fence RETURNING t.lease_until < v_now INTO v_late;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
  SELECT s.tenant_id, s.run_id, s.step_id, k.kind, s.version, s.fence, v_now, CASE k.kind WHEN 'StepSucceeded' THEN jsonb_strip_nulls(jsonb_build_object('outcome', p_plan->>'outcome', 'stand_in', v_stand_in, 'late', nullif(v_late, false))) END
  FROM (VALUES ('StepStarted'), ('StepSucceeded')) k(kind) WHERE v_fresh OR k.kind = 'StepSucceeded';
  IF v_stand_in IS NULL THEN
    INSERT INTO result (tenant_id, step_id, fence, body, blob) VALUES (s.tenant_id, s.step_id, s.fence, p_body, p_blob);
    v_arrivals := arrivals_of(s, 'ok');
  ELSE
    -- another step answers in its place: whoever waited for this one reads that one's result instead
    UPDATE step x SET sources = array_replace(x.sources, s.step_id, v_stand_in)
    WHERE x.step_id = ANY (ARRAY(SELECT b.step_id FROM barrier b WHERE b.barrier_id = ANY (s.feeds) AND b.kind = 'after')) AND x.state = 'pending';
  END IF;
  IF p_plan ? 'steps' THEN
    v_new_counts := (SELECT count(*) FROM jsonb_to_recordset(p_plan->'steps') AS x(step_id uuid, counts boolean) WHERE CASE WHEN x.step_id = v_stand_in THEN s.counts ELSE x.counts END);
    PERFORM FROM run r WHERE r.run_id = s.run_id AND r.state IN ('created', 'running') FOR NO KEY UPDATE;
    IF FOUND THEN
      UPDATE run r SET open = r.open + v_new_counts WHERE r.run_id = s.run_id AND v_new_counts > 0;
      -- the stand-in answers for this step: it feeds what this one fed, counts as this one counted, chooses where this one could, and is joined as this one is
      PERFORM insert_plan((SELECT jsonb_agg(CASE WHEN (x->>'step_id')::uuid = v_stand_in THEN x || jsonb_build_object('feeds', s.feeds, 'counts', s.counts, 'answers', coalesce(s.answers, s.node), 'chooses', s.chooses, 'uncollected', s.uncollected) ELSE x END)
        FROM jsonb_array_elements(p_plan->'steps') x), p_plan->'barriers', (SELECT t.priority FROM run r, task t WHERE r.run_id = s.run_id AND t.task_id = r.task_id AND t.tenant_id = r.tenant_id));
      IF p_plan ? 'expand' THEN PERFORM open_fan((p_plan->>'expand')::uuid); END IF;
    END IF;
  END IF;
  IF s.counts THEN v_after := ARRAY[ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath]; END IF;
  IF v_stand_in IS NULL AND s.chooses IS NOT NULL THEN
    SELECT * INTO d FROM choose(s, p_plan->'chosen');
    v_arrivals := v_arrivals || d.o_arrivals;
    v_after := v_after || d.o_after;
  END IF;
  PERFORM spread(v_arrivals, ARRAY[p_step], v_after);
  RETURN true;
END $$;

-- purpose: the last act of every transaction that settles something: publish what happened to joins, fail runs that can't go on, move tasks that people are asked about, count down what is open and end the runs that have nothing open left; tell whether that put anything into the outbox
-- transition: run created|running -> cancelling|succeeded; task accepted|running -> completed, running -> awaiting_approval, awaiting_approval -> running
-- fenced by: the caller
-- locks: runs by id, then tasks by id: nothing else is locked after a run
CREATE FUNCTION conclude(p_after aftermath[], OUT o_posted boolean) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_ids uuid[];
  v_n int[];
  v_tasks uuid[];
  v_sequences bigint[];
  v_asked uuid[] := '{}';
  x record;
BEGIN
  o_posted := false;
  IF p_after IS NULL OR cardinality(p_after) = 0 THEN RETURN; END IF;
  SELECT array_agg(y.run_id), array_agg(y.n) INTO v_ids, v_n FROM (SELECT u.run_id, sum(u.settled)::int AS n FROM unnest(p_after) u GROUP BY u.run_id) y;
  PERFORM FROM run r WHERE r.run_id = ANY (v_ids) ORDER BY r.run_id FOR NO KEY UPDATE;
  v_now := clock();
  FOR x IN SELECT u.* FROM unnest(p_after) WITH ORDINALITY u(run_id, settled, reason, news, body, n) WHERE u.news IS NOT NULL OR u.reason IS NOT NULL ORDER BY u.n LOOP
    o_posted := true;
    IF x.news IS NOT NULL THEN
      -- the run's row is locked, so its numbers follow the order of commits
      INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, sequence, body)
      SELECT outbox_partition_of(r.run_id), r.tenant_id, 'stanchion.events.v1', r.run_id::text, x.news, r.run_id::text, next_sequence(r.run_id), (jsonb_build_object('task_id', r.task_id, 'run_id', r.run_id) || x.body)::text
      FROM run r WHERE r.run_id = x.run_id;
    END IF;
    IF x.reason IS NOT NULL THEN
      PERFORM wind_down(x.run_id, CASE x.news WHEN 'ApprovalDecided' THEN 'rejected' ELSE 'failed' END, x.reason, 'engine');
    END IF;
    IF x.news IN ('ApprovalRequested', 'ApprovalDecided') THEN v_asked := v_asked || x.run_id; END IF;
  END LOOP;
  IF v_asked <> '{}' THEN PERFORM await_people(v_asked); END IF;
  WITH u AS (
    UPDATE run r SET open = r.open - v_n[array_position(v_ids, r.run_id)], updated_at = v_now,
      state = CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN 'succeeded' ELSE r.state END,
      version = r.version + CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN 1 ELSE 0 END,
      seq = r.seq + CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN 1 ELSE 0 END,
      ended_at = CASE WHEN r.open = v_n[array_position(v_ids, r.run_id)] THEN v_now END
    WHERE r.run_id = ANY (v_ids) AND r.state IN ('created', 'running') AND v_n[array_position(v_ids, r.run_id)] > 0
    RETURNING r.tenant_id, r.run_id, r.task_id, r.version, r.state, r.seq
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT u.tenant_id, u.run_id, 'RunSucceeded', u.version, v_now FROM u WHERE u.state = 'succeeded'
  )
  SELECT array_agg(u.task_id), array_agg(u.seq) INTO v_tasks, v_sequences FROM u WHERE u.state = 'succeeded';
  IF v_tasks IS NOT NULL THEN
    o_posted := true;
    PERFORM end_tasks(v_tasks, 'completed', NULL, v_sequences);
  END IF;
END $$;

-- purpose: bring one barrier's counts up to date
-- transition: none; decide_barrier decides
-- fenced by: the caller
-- locks: the barrier
CREATE FUNCTION count_barrier(p_count barrier_count) RETURNS barrier LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
BEGIN
  UPDATE barrier x SET slots_left = x.slots_left - p_count.full_slots, failed = x.failed + p_count.bad, skipped = x.skipped + p_count.skipped,
    -- a share is one of the branches that take part: those that chose another way don't
    need = CASE WHEN x.share IS NULL OR x.state <> 'waiting' THEN x.need ELSE needed(x.share, x.expected - x.skipped - p_count.skipped) END,
    -- with slots the successes are known when the last slot is empty: they are what is neither failed nor skipped
    succeeded = CASE WHEN x.slots = 0 THEN x.succeeded + p_count.ok
                     WHEN x.slots_left = p_count.full_slots THEN x.expected - x.failed - p_count.bad - x.skipped - p_count.skipped ELSE x.succeeded END
  WHERE x.barrier_id = p_count.barrier_id RETURNING * INTO STRICT b;
  RETURN b;
END $$;

-- purpose: take arrivals off the slots of their barriers and sum them up a barrier; the slot of a child is fixed by its index
-- transition: none
-- fenced by: the caller
-- locks: slots by (barrier, slot), younger barriers first
CREATE FUNCTION count_slots(p_arrivals arrival[]) RETURNS barrier_count[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  a record;
  c barrier_count;
  v_left int;
  v_full int;
  v_counts barrier_count[] := '{}';
BEGIN
  FOR a IN
    SELECT x.barrier_id, x.slot, x.ok, x.bad, x.skipped, (SELECT b.slots > 0 FROM barrier b WHERE b.barrier_id = x.barrier_id) AS slotted
    FROM (SELECT u.barrier_id, slot_of(u.idx) AS slot, sum(u.ok)::int AS ok, sum(u.bad)::int AS bad, sum(u.skipped)::int AS skipped
          FROM unnest(p_arrivals) u GROUP BY 1, 2) x
    -- an inner join is younger than the one around it, and a failure there goes on outwards: always the younger first
    ORDER BY x.barrier_id DESC, x.slot
  LOOP
    v_full := 0;
    IF a.slotted AND a.ok + a.bad + a.skipped > 0 THEN
      UPDATE barrier_slot SET remaining = remaining - (a.ok + a.bad + a.skipped) WHERE barrier_id = a.barrier_id AND slot = a.slot RETURNING remaining INTO STRICT v_left;
      v_full := (v_left = 0)::int;
    END IF;
    IF c.barrier_id = a.barrier_id THEN
      c := ROW(c.barrier_id, c.slotted, c.full_slots + v_full, c.ok + a.ok, c.bad + a.bad, c.skipped + a.skipped)::barrier_count;
    ELSE
      IF c.barrier_id IS NOT NULL THEN v_counts := v_counts || c; END IF;
      c := ROW(a.barrier_id, a.slotted, v_full, a.ok, a.bad, a.skipped)::barrier_count;
    END IF;
  END LOOP;
  RETURN CASE WHEN c.barrier_id IS NULL THEN v_counts ELSE v_counts || c END;
END $$;

-- purpose: somebody asks for an act on all tasks that fit a filter; the same id again is the same job. False above the number that a tenant may have open
-- transition: maintenance job: born due
-- fenced by: the primary key, and the limit, counted under the tenant's lock
-- locks: an advisory lock on the tenant's jobs, a new row; the audit chain last
CREATE FUNCTION create_job(p_tenant uuid, p_job uuid, p_request jsonb, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('jobs:' || p_tenant::text, 0));
  IF EXISTS (SELECT FROM maintenance_job j WHERE j.kind = 'bulk' AND j.key = p_job::text AND j.tenant_id = p_tenant) THEN RETURN true; END IF;
  IF (SELECT count(*) FROM maintenance_job j WHERE j.kind = 'bulk' AND j.tenant_id = p_tenant AND j.finished_at IS NULL) >= 20 THEN RETURN false; END IF;
  INSERT INTO maintenance_job (kind, key, tenant_id, request) VALUES ('bulk', p_job::text, p_tenant, p_request || jsonb_build_object('by', p_actor));
  PERFORM note_act(p_tenant, p_actor, 'job.create', p_job::text, p_request);
  RETURN true;
END $$;

-- purpose: an API key; only the hash of its secret is kept; null when the name is taken
-- transition: none
-- fenced by: the unique keys (tenant, name) and hash
-- locks: only a new row; the audit chain last
CREATE FUNCTION create_key(p_tenant uuid, p_name text, p_hash bytea, p_scopes text[], p_expires timestamptz, p_actor text) RETURNS uuid LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH k AS (
    INSERT INTO api_key (key_id, tenant_id, name, secret_hash, scopes, expires_at) VALUES (uuidv7(), p_tenant, p_name, p_hash, p_scopes, p_expires)
    ON CONFLICT (tenant_id, name) DO NOTHING RETURNING key_id
  ), a AS (
    INSERT INTO audit (tenant_id, actor, action, target, detail) SELECT p_tenant, p_actor, 'key.create', p_name, jsonb_build_object('scopes', p_scopes, 'key', k.key_id) FROM k
  )
  SELECT k.key_id FROM k
$$;

-- purpose: the public half of a key that signs Kafka commands; the private half never comes here; false when the id is taken
-- transition: none
-- fenced by: the key (id, tenant)
-- locks: only a new row; the audit chain last
CREATE FUNCTION create_signing_key(p_tenant uuid, p_key text, p_public bytea, p_scopes text[], p_actor text) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH k AS (
    INSERT INTO signing_key (key_id, tenant_id, public_key, scopes) VALUES (p_key, p_tenant, p_public, p_scopes) ON CONFLICT DO NOTHING RETURNING key_id
  ), a AS (
    INSERT INTO audit (tenant_id, actor, action, target, detail) SELECT p_tenant, p_actor, 'signing_key.create', p_key, jsonb_build_object('scopes', p_scopes) FROM k
  )
  SELECT EXISTS (SELECT FROM k)
$$;

-- purpose: a tenant, made once a name; noted in its own audit log, and in that of the tenant whose key or person made it
-- transition: none
-- fenced by: the name's unique key
-- locks: only a new row; the audit chain last
CREATE FUNCTION create_tenant(p_name text, p_actor text DEFAULT NULL, p_by uuid DEFAULT NULL) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_tenant uuid;
BEGIN
  INSERT INTO tenant (tenant_id, name) VALUES (uuidv7(), p_name) ON CONFLICT (name) DO NOTHING RETURNING tenant_id INTO v_tenant;
  IF v_tenant IS NULL THEN RETURN (SELECT t.tenant_id FROM tenant t WHERE t.name = p_name); END IF;
  IF p_actor IS NOT NULL THEN
    PERFORM note_act(x, p_actor, 'tenant.create', p_name, '{}') FROM unnest(ARRAY[v_tenant, p_by]) x WHERE x IS NOT NULL;
  END IF;
  RETURN v_tenant;
END $$;

-- purpose: a webhook; its secret is derived outside from a master key and its id, so that none is kept here; false above the limit of a tenant
-- transition: births: webhook active
-- fenced by: the limit, counted under the tenant's lock
-- locks: an advisory lock on the tenant's webhooks, a new row; the audit chain last
CREATE FUNCTION create_webhook(p_tenant uuid, p_webhook uuid, p_url text, p_events text[], p_master text, p_most int, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('webhooks:' || p_tenant::text, 0));
  IF (SELECT count(*) FROM webhook w WHERE w.tenant_id = p_tenant) >= p_most THEN RETURN false; END IF;
  INSERT INTO webhook (webhook_id, tenant_id, url, events, master, created_by) VALUES (p_webhook, p_tenant, p_url, p_events, p_master, p_actor);
  PERFORM note_act(p_tenant, p_actor, 'webhook.create', p_webhook::text, jsonb_build_object('url', p_url, 'events', p_events));
  RETURN true;
END $$;

-- purpose: a barrier was counted: open it, fail it, close it, or go on waiting
-- transition: barrier waiting -> released|failed; fan-out waiting -> succeeded when all its barriers are closed
-- fenced by: the caller
-- locks: the caller holds the barrier; then the step it holds, then its fan-out's step
CREATE FUNCTION decide_barrier(b barrier, p_done uuid[], OUT o_ready uuid, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[])
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_all boolean := CASE WHEN b.slots > 0 THEN b.slots_left = 0 ELSE b.succeeded + b.failed + b.skipped >= b.expected END;
  -- failed children that hold the barrier are waited for: they may be reopened
  v_settled boolean := v_all AND (b.failed = 0 OR b.on_failed <> 'hold');
  v_arrived int := b.succeeded + CASE WHEN b.on_failed = 'collect' THEN b.failed ELSE 0 END;
  v_hope int := b.expected - b.succeeded - b.skipped - CASE WHEN b.on_failed = 'hold' THEN 0 ELSE b.failed END;
  v_verdict text := 'wait';
  v_why text;
  x record;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_skipped := '{}';
  IF b.state <> 'waiting' THEN
    v_verdict := b.state;
    IF b.state = 'released' AND b.kind = 'gather' THEN PERFORM mark_late(b, p_done); END IF;
  ELSIF b.kind = 'after' THEN
    -- a step in a graph waits until all that it comes after has settled; then one failure is enough to never run it
    v_verdict := CASE WHEN NOT v_settled THEN 'wait' WHEN b.failed > 0 THEN 'fail' WHEN b.skipped = b.expected AND b.expected > 0 THEN 'skip' ELSE 'release' END;
    v_why := 'what it comes after failed';
  ELSIF b.rule = 'all' THEN
    v_verdict := CASE WHEN b.failed > 0 AND b.on_failed = 'fail' THEN 'fail' WHEN v_settled THEN 'release' ELSE 'wait' END;
    v_why := format('%s of %s children failed', b.failed, b.expected);
  ELSE
    v_verdict := CASE WHEN v_arrived >= b.need THEN 'release' WHEN v_arrived + v_hope < b.need THEN 'fail' ELSE 'wait' END;
    v_why := format('%s of %s are needed%s, and at most %s can still arrive', b.need, b.expected, CASE WHEN b.skipped > 0 THEN format(' (%s took no part)', b.skipped) ELSE '' END, v_arrived + v_hope);
  END IF;
  IF v_verdict = 'release' THEN
    SELECT * INTO x FROM release_barrier(b);
    o_ready := x.o_ready;
    o_after := x.o_after;
  ELSIF v_verdict IN ('fail', 'skip') THEN
    IF v_verdict = 'fail' THEN SELECT * INTO x FROM fail_barrier(b, v_why); ELSE SELECT * INTO x FROM skip_held(b); END IF;
    o_arrivals := x.o_arrivals;
    o_after := x.o_after;
    o_skipped := x.o_skipped;
  END IF;
  IF b.kind = 'gather' AND v_all AND NOT b.closed AND v_verdict <> 'wait' THEN o_after := o_after || close_barrier(b); END IF;
END $$;

-- purpose: delete a version at somebody's wish; false when it was deleted before
-- transition: artifact_version available -> deleted
-- fenced by: the version's state and pin, looked at under its lock
-- locks: the version, then the object; the audit chain last
CREATE FUNCTION delete_artifact(p_tenant uuid, p_version uuid, p_reason text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v artifact_version;
BEGIN
  SELECT x.* INTO v FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = p_tenant AND x.number IS NOT NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such artifact in this tenant'; END IF;
  IF v.pinned_at IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-ART-03 the version is pinned'; END IF;
  IF v.state = 'available' AND NOT EXISTS (SELECT FROM artifact_version o WHERE o.sha256 = v.sha256 AND o.tenant_id = p_tenant AND o.state = 'available' AND o.version_id <> p_version)
    AND (EXISTS (SELECT FROM result x WHERE x.blob = v.sha256 AND x.tenant_id = p_tenant) OR EXISTS (SELECT FROM step x WHERE x.input_blob = v.sha256 AND x.tenant_id = p_tenant)) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-ART-06 the version is a value that a step took or returned';
  END IF;
  IF retire_versions(ARRAY[p_version], p_actor, p_reason) = 0 THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'artifact.delete', p_version::text, jsonb_build_object('reason', p_reason));
  RETURN true;
END $$;

-- purpose: keep a person out, and end all their sessions, or let them in again: done, missing, or beyond
-- transition: none
-- fenced by: the roles that the caller may touch, compared under the person's lock
-- locks: the person, their sessions; the audit chain last
CREATE FUNCTION disable_person(p_tenant uuid, p_name text, p_disabled boolean, p_may text[], p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ended int := 0;
  x person;
BEGIN
  SELECT * INTO x FROM person p WHERE p.tenant_id = p_tenant AND p.name = p_name FOR UPDATE;
  IF NOT FOUND THEN RETURN 'missing'; END IF;
  IF x.role <> ALL (p_may) THEN RETURN 'beyond'; END IF;
  IF (x.disabled_at IS NOT NULL) = p_disabled THEN RETURN 'done'; END IF;
  UPDATE person p SET disabled_at = CASE WHEN p_disabled THEN clock() END WHERE p.person_id = x.person_id AND p.tenant_id = p_tenant;
  IF p_disabled THEN
    UPDATE session s SET revoked_at = clock() WHERE s.person_id = x.person_id AND s.tenant_id = p_tenant AND s.revoked_at IS NULL;
    GET DIAGNOSTICS v_ended = ROW_COUNT;
  END IF;
  PERFORM note_act(p_tenant, p_actor, CASE WHEN p_disabled THEN 'person.disable' ELSE 'person.enable' END, p_name, jsonb_build_object('sessions_ended', v_ended));
  RETURN 'done';
END $$;

-- purpose: an operation that was to be sent again is not: what became of the requests before is unknown again
-- transition: operation prepared -> unknown
-- fenced by: the caller
-- locks: the caller holds the step and the operation
CREATE FUNCTION doubt_again(s step, o operation, p_why text) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  UPDATE operation x SET state = 'unknown', version = x.version + 1, proof = s.fence, fence = s.fence, updated_at = v_now, unknown_since = v_now WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  UPDATE step x SET doubts = x.doubts + 1, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
  PERFORM note_operation(o, 'OperationUnknown', s.fence, NULL, jsonb_build_object('why', p_why));
END $$;

-- purpose: nobody knows any more what became of what a step has sent: its holder is gone, or gave up waiting
-- transition: operation dispatched -> unknown
-- fenced by: the proof that the caller presents
-- locks: the caller holds the step; its operations by id
CREATE FUNCTION doubt_operations(p_step uuid, p_proof bigint, p_actor text) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  o operation;
BEGIN
  FOR o IN SELECT x.* FROM operation x WHERE x.step_id = p_step AND x.state = 'dispatched' ORDER BY x.operation_id FOR NO KEY UPDATE LOOP
    UPDATE operation x SET state = 'unknown', version = x.version + 1, proof = p_proof, updated_at = clock(), unknown_since = clock() WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
    PERFORM note_operation(o, 'OperationUnknown', NULL, p_actor, NULL);
  END LOOP;
END $$;

-- purpose: a step whose operations are of unknown fate waits for a probe, whatever became of its attempt: the loss of a worker, an error or a shutdown in doubt costs no attempt
-- transition: step leased|running|reconciling -> unknown; its dispatched operations -> unknown
-- fenced by: the proof that the caller presents: the step's fence, -1 for an expired attempt, -2 for a run that winds down
-- locks: the caller holds the step
CREATE FUNCTION doubt_step(s step, p_proof bigint, p_actor text, p_delay_ms bigint, p_body jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  PERFORM doubt_operations(s.step_id, p_proof, p_actor);
  UPDATE step x SET state = 'unknown', version = x.version + 1, proof = p_proof, updated_at = v_now WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id RETURNING * INTO s;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepDoubted', s.version, s.fence, v_now, p_actor, p_body);
  DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind = 'probe';
  IF p_delay_ms = 0 THEN
    PERFORM make_ready(ARRAY[s.step_id]);
  ELSIF p_delay_ms > 0 THEN
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (s.tenant_id, 'probe', v_now + p_delay_ms * interval '1 ms', s.run_id, s.step_id, s.version);
  END IF;
END $$;

-- purpose: a step is to be cancelled that was about to send something again: what it sent before is asked after first
-- transition: operation prepared -> unknown; step ready|retry_wait -> unknown
-- fenced by: the run being in cancelling (the canceller); a held step by its own fence
-- locks: the caller holds the step; its operations
CREATE FUNCTION doubt_unsent(s step, p_reason jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int := leave_in_doubt(s, 'canceller', p_reason);
BEGIN
  IF s.state IN ('leased', 'running') THEN
    UPDATE step x SET doubts = x.doubts + v_n, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
    RETURN;
  END IF;
  DELETE FROM ready y WHERE y.step_id = s.step_id;
  DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind IN ('retry', 'start_deadline', 'step_deadline');
  UPDATE step x SET state = 'unknown', doubts = v_n, version = x.version + 1, updated_at = v_now WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id RETURNING * INTO s;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepDoubted', s.version, v_now, 'canceller', p_reason);
  PERFORM make_ready(ARRAY[s.step_id]);
END $$;

-- purpose: ask a worker to stop leasing and end after what it runs; a tenant asks only one that serves nobody else
-- transition: none
-- fenced by: nothing
-- locks: the worker's row; the audit chain last
CREATE FUNCTION drain_worker(p_worker uuid, p_only_of uuid, p_tenant uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE worker SET drain_requested = true WHERE worker_id = p_worker AND state <> 'gone' AND (p_only_of IS NULL OR tenants <@ ARRAY[p_only_of]);
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'worker.drain', p_worker::text, '{}');
  RETURN true;
END $$;

-- purpose: drop months of events that are over for so long and that no run refers to any more; runs go first, with remove_history
-- transition: none
-- fenced by: no run that still stands has an event there, however old it is
-- locks: the event table, for 2 s at most; who comes too early tries again later
CREATE FUNCTION drop_partitions(p_older interval) RETURNS SETOF text LANGUAGE plpgsql SET search_path = stanchion, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  p record;
  v_upto timestamptz := clock() - p_older;
BEGIN
  FOR p IN
    SELECT x.relname::text AS name, x.starts AT TIME ZONE 'UTC' AS starts, (x.starts + interval '1 month') AT TIME ZONE 'UTC' AS ends
    FROM (SELECT c.relname, to_timestamp(c.relname::text, '"event_"YYYY_MM') AT TIME ZONE current_setting('TimeZone') AS starts
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'event'::regclass AND c.relname ~ '^event_[0-9]{4}_[0-9]{2}$') x
    ORDER BY x.relname
  LOOP
    CONTINUE WHEN p.ends > v_upto;
    CONTINUE WHEN EXISTS (SELECT FROM run r WHERE r.created_at < p.ends AND EXISTS (SELECT FROM event e WHERE e.run_id = r.run_id AND e.at >= p.starts AND e.at < p.ends));
    EXECUTE format('DROP TABLE %I', p.name);
    RETURN NEXT p.name;
  END LOOP;
  -- what was written before its month had a partition can only go row by row, once its run is gone
  DELETE FROM event e WHERE e.tableoid = 'event_default'::regclass AND e.at < v_upto AND NOT EXISTS (SELECT FROM run r WHERE r.run_id = e.run_id);
  IF FOUND THEN RETURN NEXT 'event_default'; END IF;
END $$;

-- purpose: fan-outs that wait for their next branches: of each run its oldest before the second of any, so that a run with thousands of them keeps no other waiting
-- transition: none
-- fenced by: nothing; expand decides
-- locks: none
CREATE FUNCTION due_expansions(p_limit int) RETURNS TABLE (tenant_id uuid, run_id uuid, fan_id uuid, next_index int, node text, workflow text, workflow_version int, outer_fan uuid, idx int, round int, sources uuid[], feeds uuid[], input jsonb, input_blob bytea, retry_of uuid, priority int)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH RECURSIVE oldest AS MATERIALIZED (
    SELECT t.target_id, t.version, t.due_at, t.run_id FROM timer t
    WHERE t.kind = 'expand' AND t.due_at <= (SELECT clock()) AND t.target_id <> ALL ((SELECT aside('expansion'))::uuid[]) AND (SELECT r.state IN ('created', 'running') FROM run r WHERE r.run_id = t.run_id) ORDER BY t.due_at LIMIT p_limit * 5
  ), runs(run_id, n) AS (
    -- from run to run, one index probe each: those behind a run that has more of them than the window above
    (SELECT t.run_id, 1 FROM timer t WHERE t.kind = 'expand' AND (SELECT count(*) FROM oldest) = p_limit * 5 ORDER BY t.run_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.run_id FROM timer t WHERE t.kind = 'expand' AND t.run_id > r.run_id ORDER BY t.run_id LIMIT 1), r.n + 1 FROM runs r WHERE r.run_id IS NOT NULL AND r.n < p_limit * 5
  ), others AS MATERIALIZED (
    SELECT x.* FROM runs, LATERAL (
      SELECT t.target_id, t.version, t.due_at, t.run_id FROM timer t
      WHERE t.kind = 'expand' AND t.run_id = runs.run_id AND t.due_at <= (SELECT clock()) AND t.target_id <> ALL ((SELECT aside('expansion'))::uuid[]) AND (SELECT r.state IN ('created', 'running') FROM run r WHERE r.run_id = t.run_id) ORDER BY t.due_at LIMIT 1) x
  ), d AS MATERIALIZED (
    SELECT c.*, row_number() OVER (PARTITION BY c.run_id ORDER BY c.due_at, c.target_id) AS turn FROM (SELECT * FROM oldest UNION SELECT * FROM others) c ORDER BY turn, c.due_at LIMIT p_limit
  )
  -- a limit keeps each look-up one index probe a row: joined freely, it was planned from all steps
  SELECT s.tenant_id, s.run_id, s.step_id, d.version::int, s.node, s.workflow, s.workflow_version, s.fan_id, s.idx, s.round, s.sources, s.feeds, s.input, s.input_blob, r.retry_of, r.priority
  FROM d, LATERAL (SELECT x.* FROM step x WHERE x.step_id = d.target_id LIMIT 1) s,
    LATERAL (SELECT x.retry_of, (SELECT k.priority::int FROM task k WHERE k.task_id = x.task_id AND k.tenant_id = x.tenant_id) AS priority FROM run x WHERE x.run_id = s.run_id AND x.tenant_id = s.tenant_id LIMIT 1) r
  ORDER BY d.turn, d.due_at
$$;

-- purpose: what the next batch of a kind would take in, for doing it one by one when the batch was refused
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION due_items(p_kind text, p_limit int) RETURNS SETOF uuid LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  IF p_kind = 'lease' THEN
    RETURN QUERY SELECT a.step_id FROM attempt a WHERE a.ended_at IS NULL AND a.lease_until < v_now AND a.step_id <> ALL (aside('lease')) ORDER BY a.lease_until LIMIT p_limit;
  ELSE
    RETURN QUERY SELECT t.timer_id FROM timer t WHERE t.due_at <= v_now AND t.kind <> 'expand' AND t.timer_id <> ALL (aside('timer')) ORDER BY t.due_at LIMIT p_limit;
  END IF;
END $$;

-- purpose: one of those asked changes what is asked about: the old question ends, the new one is decided by itself, by the same people, in the time that is left
-- transition: approval requested -> replaced; approval -> requested (born)
-- fenced by: the approval's state and time, the person's vote, and the hash of what was shown, all looked at under its lock
-- locks: the step, the approval, then the run and the task; the audit chain last
CREATE FUNCTION edit_approval(p_tenant uuid, p_approval uuid, p_person uuid, p_shown bytea, p_new uuid, p_payload jsonb, p_hash bytea, p_comment text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_subject text := (SELECT 'person:' || p.name FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant);
  a approval;
  v approval;
BEGIN
  a := hold_approval(p_tenant, p_approval);
  v_now := clock();
  SELECT * INTO v FROM approval x WHERE x.replaces = p_approval AND x.tenant_id = p_tenant AND x.run_id = a.run_id AND x.edited_by = v_subject AND x.payload_hash = p_hash;
  IF FOUND THEN RETURN v.approval_id; END IF;  -- asked again, since the answer got lost
  IF voter_fault(a, p_person) IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST009', MESSAGE = 'E-APR-03 only those who may decide it may change what is asked'; END IF;
  IF a.state <> 'requested' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-APR-01 the approval is %s', a.state); END IF;
  IF a.expires_at <= v_now THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-02 the time to decide is over'; END IF;
  IF p_shown <> a.payload_hash THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-04 the approval covers something else than what was shown'; END IF;
  IF p_hash = a.payload_hash THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-10 nothing of the payload is changed'; END IF;
  IF (SELECT count(*) FROM approval x WHERE x.step_id = a.step_id AND x.fence = a.fence AND x.tenant_id = p_tenant) > 50 THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-10 it was changed 50 times already';
  END IF;
  UPDATE approval x SET state = 'replaced', version = x.version + 1, updated_at = v_now, decided_at = v_now, decided_by = v_subject, reason = p_comment
  WHERE x.approval_id = p_approval AND x.tenant_id = p_tenant RETURNING * INTO a;
  INSERT INTO approval (tenant_id, approval_id, task_id, run_id, step_id, fence, node, state, question, summary, payload, payload_hash, operation_kind, operation_key, resource_id, resource_sha256,
    people, teams, needs, four_eyes, on_timeout, on_rejected, requested_by, replaces, edited_by, created_at, updated_at, expires_at)
  VALUES (a.tenant_id, p_new, a.task_id, a.run_id, a.step_id, a.fence, a.node, 'requested', a.question, a.summary, p_payload, p_hash, a.operation_kind, a.operation_key, a.resource_id, a.resource_sha256,
    a.people, a.teams, a.needs, a.four_eyes, a.on_timeout, a.on_rejected, a.requested_by, a.approval_id, v_subject, v_now, v_now, a.expires_at) RETURNING * INTO v;
  IF (SELECT count(*) FROM (SELECT FROM person p WHERE p.tenant_id = p_tenant AND voter_fault(v, p.person_id) IS NULL LIMIT v.needs) x) < v.needs THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-10 nobody would be left to approve it: whoever changes it has no vote on it';
  END IF;
  PERFORM note_approval(a, 'ApprovalReplaced', v_subject, jsonb_build_object('by', v.approval_id, 'reason', p_comment));
  PERFORM notify_approval(a, 'approval.decided');
  PERFORM note_request(v);
  PERFORM conclude(ARRAY[approval_news(a, 'ApprovalDecided'), approval_news(v, 'ApprovalRequested')]);
  PERFORM note_act(p_tenant, v_subject, 'approval.edit', p_approval::text, jsonb_build_object('hash', encode(p_hash, 'hex'), 'was', encode(p_shown, 'hex'), 'comment', p_comment, 'replaced_by', v.approval_id));
  RETURN v.approval_id;
END $$;

-- purpose: an approval is decided, or its time is over: its row, its event, its webhooks, and the answer for the step that waits
-- transition: approval requested|granted|spent -> the given state; step waiting -> succeeded|failed; a no may end the run
-- fenced by: the caller holds the step and the approval
-- locks: those of answer_step
CREATE FUNCTION end_approval(a approval, p_state text, p_actor text, p_reason text, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v approval;
  v_ends boolean;
BEGIN
  UPDATE approval x SET state = p_state, version = x.version + 1, updated_at = v_now, decided_at = v_now, decided_by = p_actor, reason = p_reason
  WHERE x.approval_id = a.approval_id AND x.tenant_id = a.tenant_id RETURNING * INTO v;
  PERFORM note_approval(v, 'Approval' || initcap(p_state), p_actor, jsonb_build_object('reason', p_reason));
  PERFORM notify_approval(v, 'approval.decided');
  SELECT x.o_arrivals, x.o_after, x.o_settled INTO o_arrivals, o_after, o_settled FROM answer_step(v) x;
  v_ends := v.on_rejected = 'end' AND p_state <> 'granted' AND o_settled <> '{}' AND NOT (p_state = 'expired' AND v.on_timeout = 'fail');
  -- before what follows from it, so that a task runs again before it ends
  o_after := approval_news(v, 'ApprovalDecided', CASE WHEN v_ends THEN jsonb_build_object('code', 'E-APR-09', 'what', format('%s was not approved', a.node), 'approval', a.approval_id, 'outcome', p_state, 'by', p_actor, 'why', p_reason) END) || o_after;
END $$;

-- purpose: the holder of a step of a run that winds down reports that it has stopped
-- transition: step leased|running -> cancelled; attempt -> superseded
-- fenced by: each step's own fence, and the run being in cancelling
-- locks: steps by id
CREATE FUNCTION end_cancelled(p_worker uuid, p_steps uuid[], p_fences bigint[]) RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_aside uuid[];
BEGIN
  PERFORM FROM step s WHERE s.step_id = ANY (p_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  v_now := clock();
  v_aside := set_aside_doubtful(p_worker, p_steps, p_fences, ARRAY(SELECT jsonb_build_object('code', 'E-OP-10', 'what', 'it was cancelled') FROM unnest(p_steps)), 0);
  RETURN QUERY SELECT unnest(v_aside);
  RETURN QUERY WITH u AS (
    UPDATE step s SET state = 'cancelled', version = s.version + 1, proof = s.fence, updated_at = v_now
    WHERE s.step_id = ANY (p_steps) AND s.state IN ('leased', 'running') AND s.fence = p_fences[array_position(p_steps, s.step_id)]
      AND (SELECT r.state = 'cancelling' FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id)
    RETURNING s.tenant_id, s.run_id, s.step_id, s.version, s.fence
  ), a AS (
    UPDATE attempt t SET state = 'superseded', ended_at = v_now WHERE t.step_id = ANY (ARRAY(SELECT u.step_id FROM u)) AND t.fence = p_fences[array_position(p_steps, t.step_id)] AND t.ended_at IS NULL
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor) SELECT u.tenant_id, u.run_id, u.step_id, 'StepCancelled', u.version, u.fence, v_now, p_worker::text FROM u
  ) SELECT u.step_id FROM u;
END $$;

-- purpose: the orchestrator found that a run can't go on
-- transition: run created|running -> cancelling, with outcome failed
-- fenced by: nothing
-- locks: the run
CREATE FUNCTION end_early(p_run uuid, p_reason jsonb) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT wind_down(p_run, 'failed', p_reason, 'orchestrator')
$$;

-- purpose: the holder ends its attempt, or its probing, without knowing what became of an operation: the next probe is due later, or a person has to tell
-- transition: step leased|running|reconciling -> unknown; attempt -> failed (it does not count), or released after a probe
-- fenced by: the step's own fence
-- locks: the step, then its operations
CREATE FUNCTION end_in_doubt(p_worker uuid, p_step uuid, p_fence bigint, p_error jsonb, p_delay_ms bigint) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'end_in_doubt');
  IF NOT FOUND OR s.doubts = 0 THEN RETURN false; END IF;
  UPDATE attempt t SET state = CASE s.state WHEN 'reconciling' THEN 'released' ELSE 'failed' END, ended_at = clock(), counted = false, error = p_error, started_at = coalesce(t.started_at, t.granted_at)
  WHERE t.step_id = s.step_id AND t.fence = s.fence AND t.ended_at IS NULL;
  PERFORM doubt_step(s, s.fence, p_worker::text, p_delay_ms, jsonb_build_object('error', p_error));
  RETURN true;
END $$;

-- purpose: a probe has settled all that was in doubt: the step goes on, with what is known in the ledger; or it ends, when its run does
-- transition: step reconciling -> ready|cancelled; attempt -> released|superseded
-- fenced by: the step's own fence
-- locks: the step, then the run (shared)
CREATE FUNCTION end_probe(p_worker uuid, p_step uuid, p_fence bigint) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  v_state text;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'end_probe');
  IF NOT FOUND OR s.state <> 'reconciling' OR s.doubts > 0 THEN RETURN false; END IF;
  v_state := go_on(s, s.fence, p_worker::text, NULL);
  UPDATE attempt t SET state = CASE v_state WHEN 'ready' THEN 'released' ELSE 'superseded' END, ended_at = clock() WHERE t.step_id = s.step_id AND t.fence = s.fence AND t.ended_at IS NULL;
  RETURN true;
END $$;

-- purpose: end a run that was winding down, and its task with it
-- transition: run cancelling -> failed|cancelled; its waiting barriers -> cancelled; task running -> failed, cancelling -> cancelled, awaiting_approval -> rejected
-- fenced by: the caller saw under the run's lock that nothing of it is open
-- locks: the run, then its barriers, then the task
CREATE FUNCTION end_run(p_run uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  r run;
BEGIN
  PERFORM cancel_barriers(ARRAY(SELECT b.barrier_id FROM barrier b WHERE b.run_id = p_run AND b.state = 'waiting'));
  -- nothing arrives any more: a join that was decided early must not be swept for ever
  UPDATE barrier x SET closed = true, sweep_at = NULL WHERE x.run_id = p_run AND x.kind = 'gather' AND (NOT x.closed OR x.sweep_at IS NOT NULL);
  UPDATE run x SET state = CASE x.outcome WHEN 'rejected' THEN 'cancelled' ELSE x.outcome END, reason = x.reason || coalesce(compensated_of(p_run), '{}'), version = x.version + 1, updated_at = v_now, ended_at = v_now WHERE x.run_id = p_run AND x.state = 'cancelling' RETURNING * INTO r;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) VALUES (r.tenant_id, r.run_id, 'Run' || initcap(r.state), r.version, v_now, r.reason);
  PERFORM end_tasks(ARRAY[r.task_id], r.outcome, r.reason);
END $$;

-- purpose: end a session, one's own or (without a person) anybody's in the tenant; ending it again changes nothing; false when there is none
-- transition: none
-- fenced by: nothing
-- locks: the session's row; the audit chain last
CREATE FUNCTION end_session(p_tenant uuid, p_session uuid, p_person uuid, p_actor text, p_action text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_name text := (SELECT p.name FROM session s JOIN person p ON p.person_id = s.person_id AND p.tenant_id = s.tenant_id
    WHERE s.session_id = p_session AND s.tenant_id = p_tenant AND (p_person IS NULL OR s.person_id = p_person));
BEGIN
  IF v_name IS NULL THEN RETURN false; END IF;
  UPDATE session s SET revoked_at = clock() WHERE s.session_id = p_session AND s.tenant_id = p_tenant AND s.revoked_at IS NULL;
  IF FOUND THEN PERFORM note_act(p_tenant, p_actor, p_action, v_name, jsonb_build_object('session', p_session)); END IF;
  RETURN true;
END $$;

-- purpose: end tasks whose run ended, tell the world and the webhooks, and drop what was due for them
-- transition: task accepted|running -> completed|failed, cancelling -> cancelled, awaiting_approval -> rejected
-- fenced by: the caller ended the run under its row lock
-- locks: tasks by id
CREATE FUNCTION end_tasks(p_tasks uuid[], p_state text, p_reason jsonb, p_sequences bigint[] DEFAULT NULL) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_ended uuid[];
BEGIN
  PERFORM FROM task t WHERE t.task_id = ANY (p_tasks) ORDER BY t.task_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE task t SET state = p_state, version = t.version + 1, updated_at = v_now, ended_at = v_now, reason = p_reason
    WHERE t.task_id = ANY (p_tasks) AND t.ended_at IS NULL
    RETURNING t.tenant_id, t.task_id, t.run_id, t.version, t.workflow, t.deadline_at
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at, body) SELECT u.tenant_id, u.run_id, 'Task' || initcap(p_state), u.version, v_now, p_reason FROM u
  ), d AS (
    DELETE FROM timer x WHERE x.target_id = ANY (ARRAY(SELECT u.task_id FROM u WHERE u.deadline_at IS NOT NULL))
  ), o AS (
    INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, sequence, body)
    SELECT outbox_partition_of(u.run_id), u.tenant_id, 'stanchion.events.v1', u.run_id::text, 'Task' || initcap(p_state), u.run_id::text,
           coalesce(p_sequences[array_position(p_tasks, u.task_id)], next_sequence(u.run_id)), jsonb_build_object('task_id', u.task_id, 'run_id', u.run_id, 'workflow', u.workflow, 'state', p_state, 'reason', p_reason)::text
    FROM u
  )
  SELECT array_agg(u.task_id) INTO v_ended FROM u;
  -- who subscribed learns that it ended and how, not what came of it: of the reason the code alone
  PERFORM notify_webhooks(t.tenant_id, 'task.' || p_state, t.task_id::text, jsonb_strip_nulls(jsonb_build_object('task_id', t.task_id, 'run_id', t.run_id, 'workflow', t.workflow, 'state', p_state, 'code', p_reason->>'code')))
  FROM task t WHERE t.task_id = ANY (v_ended);
END $$;

-- purpose: the person who signs in, made at the first time; what their provider says of them is kept, a changed role and changed teams are noted
-- transition: none
-- fenced by: the unique keys (tenant, name) and (tenant, issuer, subject)
-- locks: the person, then their rows in teams; the audit chain last
CREATE FUNCTION ensure_person(p_tenant uuid, p_name text, p_display text, p_email text, p_issuer text, p_subject text, p_role text, p_teams text[], p_governed text[], p_actor text)
RETURNS TABLE (person_id uuid, name text, role text, disabled boolean) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_name text := p_name;
  v_was text;
  v_teams text[];
  v_acts jsonb := '[]';
  v_act jsonb;
  x person;
BEGIN
  -- two first sign-ins of one person at once are one after the other
  PERFORM pg_advisory_xact_lock(hashtextextended(concat('person:', p_tenant, ':', p_issuer, ':', coalesce(p_subject, p_name)), 0));
  SELECT * INTO x FROM person p WHERE p.tenant_id = p_tenant AND (CASE WHEN p_issuer IS NULL THEN p.name = p_name AND p.issuer IS NULL ELSE p.issuer = p_issuer AND p.subject = p_subject END) FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    FOR i IN 2..1000 LOOP
      INSERT INTO person (person_id, tenant_id, name, display_name, email, issuer, subject, role)
      VALUES (uuidv7(), p_tenant, v_name, p_display, p_email, p_issuer, p_subject, p_role) ON CONFLICT (tenant_id, name) DO NOTHING RETURNING * INTO x;
      EXIT WHEN FOUND;
      -- the dev login never becomes somebody whom a provider vouches for; a provider's person never takes the name of another
      IF p_issuer IS NULL THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-PERSON-02 this name belongs to somebody who signs in elsewhere'; END IF;
      v_name := left(p_name, 58) || '-' || i;
    END LOOP;
    v_acts := v_acts || jsonb_build_object('action', 'person.create', 'detail', jsonb_build_object('person', x.person_id, 'role', x.role, 'issuer', p_issuer));
  ELSIF p_issuer IS NOT NULL THEN
    v_was := x.role;
    UPDATE person p SET display_name = p_display, email = p_email, role = p_role WHERE p.person_id = x.person_id AND p.tenant_id = p_tenant RETURNING * INTO x;
    IF v_was <> x.role THEN v_acts := v_acts || jsonb_build_object('action', 'person.role', 'detail', jsonb_build_object('before', v_was, 'after', x.role, 'issuer', p_issuer)); END IF;
  END IF;
  -- the provider's word holds for the teams that it governs, nobody else's are touched
  v_teams := ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = x.person_id AND m.tenant_id = p_tenant AND m.team = ANY (p_governed) ORDER BY m.team);
  IF v_teams IS DISTINCT FROM ARRAY(SELECT DISTINCT g FROM unnest(p_teams) g WHERE g = ANY (p_governed) ORDER BY g) THEN
    DELETE FROM team_member m WHERE m.person_id = x.person_id AND m.tenant_id = p_tenant AND m.team = ANY (p_governed) AND m.team <> ALL (p_teams);
    INSERT INTO team_member (tenant_id, team, person_id) SELECT DISTINCT p_tenant, g, x.person_id FROM unnest(p_teams) g WHERE g = ANY (p_governed) ON CONFLICT DO NOTHING;
    v_acts := v_acts || jsonb_build_object('action', 'person.teams', 'detail', jsonb_build_object('before', v_teams, 'after', p_teams, 'issuer', p_issuer));
  END IF;
  -- last: an entry holds the audit log until the end, and nobody may wait for a row behind it
  FOR v_act IN SELECT a.value FROM jsonb_array_elements(v_acts) WITH ORDINALITY a ORDER BY a.ordinality LOOP
    PERFORM note_act(p_tenant, p_actor, v_act->>'action', x.name, v_act->'detail');
  END LOOP;
  RETURN QUERY SELECT x.person_id, x.name, x.role, x.disabled_at IS NOT NULL;
END $$;

-- purpose: the error that a step ended with: of its last attempt that has one
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION error_of(p_step uuid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT a.error FROM attempt a WHERE a.step_id = p_step AND a.error IS NOT NULL ORDER BY a.fence DESC LIMIT 1
$$;

-- purpose: insert the next branches of a fan-out, and with the first of them the joins that wait for all; in a retried run with what they take over
-- transition: births: step pending|ready (succeeded|skipped when it is adopted), barrier waiting; those of an arrival
-- fenced by: the fan-out's row lock and the due row's cursor, so that two planners never insert a branch twice
-- locks: the fan-out's step, then new rows, slots, barriers and held steps; its run last, so that it can't end unseen
CREATE FUNCTION expand(p_fan uuid, p_first int, p_items jsonb, p_template jsonb, p_steps jsonb, p_barriers jsonb, p_next int, p_total int) RETURNS text
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  f step;
  v_room int;
  v_arrivals arrival[];
  v_done uuid[] := '{}';
  v_after aftermath[] := '{}';
  v_ready uuid[];
  a record;
  v_counts int;
  v_old_run uuid;
BEGIN
  SELECT * INTO f FROM step x WHERE x.step_id = p_fan AND x.state = 'waiting' FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    DELETE FROM timer t WHERE t.target_id = p_fan AND t.kind = 'expand';
    RETURN 'gone';
  END IF;
  UPDATE timer t SET version = p_next, due_at = v_now WHERE t.target_id = p_fan AND t.kind = 'expand' AND t.version = p_first;
  IF NOT FOUND THEN RETURN 'taken'; END IF;
  SELECT r.retry_of INTO v_old_run FROM run r WHERE r.run_id = f.run_id AND r.state IN ('created', 'running');
  IF NOT FOUND THEN RETURN 'winding down'; END IF;
  v_arrivals := insert_barriers(p_barriers);
  IF p_first = 0 THEN
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, body)
    VALUES (f.tenant_id, f.run_id, f.step_id, 'FanExpanding', f.version, v_now, jsonb_build_object('children', p_total, 'template', p_template));
  END IF;
  IF p_steps IS NOT NULL THEN
    PERFORM insert_plan(p_steps, NULL);
    v_counts := (SELECT count(*) FROM jsonb_to_recordset(p_steps) AS x(counts boolean) WHERE x.counts);
    IF v_old_run IS NOT NULL THEN
      SELECT * INTO a FROM adopt_steps(p_steps);
      v_arrivals := v_arrivals || a.o_arrivals;
      v_done := a.o_done;
      v_after := a.o_after;
    END IF;
  ELSIF p_items IS NOT NULL AND v_old_run IS NOT NULL THEN
    SELECT * INTO a FROM adopt_children(f, p_first, p_items, p_template);
    v_arrivals := v_arrivals || a.o_arrivals;
    v_done := a.o_done;
  ELSIF p_items IS NOT NULL THEN
    v_room := CASE WHEN EXISTS (SELECT FROM ready r WHERE r.queue = p_template->>'queue' AND r.offered_at IS NULL) OR EXISTS (SELECT FROM queue_pause q WHERE q.queue = p_template->>'queue' AND q.tenant_id = f.tenant_id) THEN 0
      ELSE 5000 - (SELECT count(*) FROM (SELECT FROM ready r WHERE r.queue = p_template->>'queue' AND r.offered_at <= v_now LIMIT 5000) x) END;
    PERFORM expand_children(f, p_first, p_items, p_template, v_room, steps_in_offer(f.workflow, f.workflow_version, p_template->>'node', p_total));
  END IF;
  IF p_next >= p_total THEN DELETE FROM timer t WHERE t.target_id = p_fan AND t.kind = 'expand'; END IF;
  SELECT x.o_ready, v_after || x.o_after INTO v_ready, v_after FROM arrive(v_arrivals, v_done) x;
  PERFORM make_ready(v_ready);
  IF p_total > 0 THEN PERFORM hold_run(f.run_id); END IF;
  IF v_counts > 0 THEN UPDATE run r SET open = r.open + v_counts WHERE r.run_id = f.run_id AND r.state IN ('created', 'running'); END IF;
  -- only now: what was just added to what is open keeps the run from ending with what was taken over
  PERFORM conclude(v_after);
  RETURN 'expanded';
END $$;

-- purpose: the hot half of expand: one ready step an item, in one statement, with offers of several steps while the window has room
-- transition: birth: step ready
-- fenced by: the caller holds the fan-out's row
-- locks: only new rows
CREATE FUNCTION expand_children(f step, p_first int, p_items jsonb, p_template jsonb, p_room int, p_each int) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_feeds uuid[] := ARRAY(SELECT x::uuid FROM jsonb_array_elements_text(p_template->'feeds') x);
  v_queue text := p_template->>'queue';
  v_priority int := (p_template->>'priority')::int;
  v_node text := p_template->>'node';
BEGIN
  WITH s AS (
    INSERT INTO step (tenant_id, step_id, run_id, fan_id, idx, state, node, queue, priority, max_attempts, feeds, workflow, workflow_version, input, timeout_ms, lease_ms, start_within_ms, total_ms, expires_at, holds, uncollected, created_at, updated_at)
    SELECT f.tenant_id, uuidv7(), f.run_id, f.step_id, p_first + i.n - 1, 'ready', v_node, v_queue, v_priority, (p_template->>'max_attempts')::int, v_feeds, f.workflow, f.workflow_version, i.v, (p_template->>'timeout_ms')::bigint, (p_template->>'lease_ms')::bigint,
           (p_template->>'start_within_ms')::bigint, (p_template->>'total_ms')::bigint, v_now + (p_template->>'total_ms')::bigint * interval '1 ms', coalesce((p_template->>'holds')::boolean, false), coalesce((p_template->>'uncollected')::boolean, false), v_now, v_now
    FROM jsonb_array_elements(p_items) WITH ORDINALITY i(v, n)
    RETURNING step_id, idx
  ), y AS (
    INSERT INTO ready (step_id, tenant_id, workflow, workflow_version, node, queue, priority, offers, since, offered_at)
    SELECT s.step_id, f.tenant_id, f.workflow, f.workflow_version, v_node, v_queue, v_priority, CASE WHEN s.idx - p_first < p_room THEN 1 ELSE 0 END, v_now, CASE WHEN s.idx - p_first < p_room THEN v_now END FROM s
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, body) SELECT f.tenant_id, f.run_id, s.step_id, 'StepReady', 0, v_now, jsonb_build_object('fan', f.step_id, 'idx', s.idx) FROM s
  ), t AS (
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id)
    SELECT f.tenant_id, k.kind, v_now + (p_template->>k.span)::bigint * interval '1 ms', f.run_id, s.step_id FROM s, (VALUES ('start_deadline', 'start_within_ms'), ('step_deadline', 'total_ms')) k(kind, span) WHERE p_template->>k.span IS NOT NULL
  )
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  SELECT ((s.idx / p_each) % 8)::smallint, f.tenant_id, 'stanchion.workers.' || v_queue || '.commands.v1', (array_agg(s.step_id))[1]::text, 'ExecuteSteps', f.run_id::text,
         jsonb_build_object('workflow', f.workflow, 'version', f.workflow_version, 'node', v_node, 'steps', jsonb_agg(s.step_id))::text
  FROM s WHERE s.idx - p_first < p_room GROUP BY s.idx / p_each ORDER BY s.idx / p_each;
END $$;

-- purpose: record that attempts failed: another attempt after a delay while the budget lasts, else the step has failed
-- transition: step leased|running -> retry_wait|failed, or unknown; attempt -> failed
-- fenced by: each step's own fence; a stale member of the batch is refused, recorded, and harms no other
-- locks: steps by id, then slots, barriers, held steps, runs, tasks
CREATE FUNCTION fail(p_worker uuid, p_steps uuid[], p_fences bigint[], p_errors jsonb[], p_final boolean[], p_delays_ms bigint[])
RETURNS TABLE (step_id uuid, state text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  s step;
  i int;
  v_done uuid[] := '{}';
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
  v_settled uuid[] := '{}';
  v_fresh boolean;
  v_over boolean;
  v_final boolean;
  v_x record;
BEGIN
  PERFORM FROM step x WHERE x.step_id = ANY (p_steps) ORDER BY x.step_id FOR NO KEY UPDATE;
  v_now := clock();
  v_done := set_aside_doubtful(p_worker, p_steps, p_fences, p_errors, 0);
  RETURN QUERY SELECT d, 'unknown' FROM unnest(v_done) d;
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (p_steps) ORDER BY x.step_id LOOP
    i := array_position(p_steps, s.step_id);
    CONTINUE WHEN s.fence <> p_fences[i] OR s.state NOT IN ('leased', 'running') OR s.step_id = ANY (v_done);
    v_done := v_done || s.step_id;
    v_fresh := s.state = 'leased';
    -- another attempt must still be able to begin within the step's total time
    v_over := coalesce(s.expires_at <= v_now + p_delays_ms[i] * interval '1 ms', false);
    v_final := p_final[i] OR v_over OR s.attempts + 1 >= s.max_attempts;
    UPDATE attempt t SET state = 'failed', ended_at = v_now, counted = true, error = p_errors[i], started_at = coalesce(t.started_at, t.granted_at)
    WHERE t.step_id = s.step_id AND t.fence = s.fence;
    step_id := s.step_id;
    state := CASE WHEN v_final THEN 'failed' ELSE 'retry_wait' END;
    UPDATE step x SET state = CASE WHEN v_final THEN 'failed' ELSE 'retry_wait' END,
      version = x.version + 1, attempts = x.attempts + 1, proof = s.fence, updated_at = v_now WHERE x.step_id = s.step_id RETURNING * INTO s;
    IF v_fresh THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepStarted', s.version, s.fence, v_now);
    END IF;
    IF s.state = 'retry_wait' THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
      VALUES (s.tenant_id, s.run_id, s.step_id, 'StepRetryScheduled', s.version, s.fence, v_now, jsonb_build_object('error', p_errors[i], 'delay_ms', p_delays_ms[i], 'attempts', s.attempts));
      INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (s.tenant_id, 'retry', v_now + p_delays_ms[i] * interval '1 ms', s.run_id, s.step_id, s.version);
    ELSE
      SELECT * INTO v_x FROM step_failed(s, p_errors[i] || CASE WHEN v_over AND NOT p_final[i] THEN '{"over": "its total time"}' ELSE '{}' END::jsonb);
      v_arrivals := v_arrivals || v_x.o_arrivals;
      v_after := v_after || v_x.o_after;
      v_settled := v_settled || s.step_id || v_x.o_skipped;
    END IF;
    RETURN NEXT;
  END LOOP;
  PERFORM spread(v_arrivals, v_settled, v_after);
  IF cardinality(v_done) < cardinality(p_steps) THEN
    RETURN QUERY SELECT d, CASE WHEN (SELECT y.state FROM step y WHERE y.step_id = d) = 'failed' THEN 'failed' ELSE 'retry_wait' END FROM unnest(refuse(p_worker, p_steps, p_fences, v_done, 'fail', 'failed')) d;
  END IF;
END $$;

-- purpose: a barrier that can't open any more fails; so does what it holds, or the whole run when no join further out would learn of it
-- transition: barrier waiting -> failed; held step pending -> skipped
-- fenced by: the caller
-- locks: the caller holds the barrier; then the held step
CREATE FUNCTION fail_barrier(b barrier, p_why text, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_reason jsonb := jsonb_build_object('code', 'E-JOIN-20', 'what', format('the join before %s failed: %s', b.node, p_why), 'barrier', b.barrier_id);
  v_error jsonb := (SELECT error_of(s.step_id) - 'traceback' FROM step s WHERE b.kind = 'gather' AND s.fan_id = b.fan_id AND s.state = 'failed' ORDER BY s.idx LIMIT 1);
BEGIN
  -- one of the failures that it was for: people look for the cause where they see the end
  IF v_error IS NOT NULL THEN v_reason := v_reason || jsonb_build_object('error', v_error); END IF;
  UPDATE barrier x SET state = 'failed', version = x.version + 1 WHERE x.barrier_id = b.barrier_id;
  DELETE FROM timer t WHERE t.target_id = b.barrier_id AND b.deadline_at IS NOT NULL;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) VALUES (b.tenant_id, b.run_id, 'BarrierFailed', b.version + 1, v_now,
    v_reason || jsonb_build_object('succeeded', b.succeeded, 'failed', b.failed, 'skipped', b.skipped));
  SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM skip_step(b.step_id, v_reason, true) x;
  IF b.kind = 'gather' THEN
    o_after := o_after || ROW(b.run_id, 0, NULL, 'BarrierFailed', jsonb_build_object('barrier_id', b.barrier_id, 'step_id', b.step_id, 'node', b.node, 'rule', b.rule, 'expected', b.expected, 'succeeded', b.succeeded,
      'failed', b.failed, 'code', 'E-JOIN-20', 'why', p_why))::aftermath;
    IF EXISTS (SELECT FROM step s WHERE s.step_id = b.step_id AND s.uncollected AND is_needed(s.fan_id, s.idx)) THEN o_after := o_after || ROW(b.run_id, 0, v_reason, NULL, NULL)::aftermath; END IF;
  END IF;
END $$;

-- purpose: in a retried run, the fan-out of a run before that stands where this one does and has the branch that is asked for; the newest, since a run may have ended before it made its branches
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION fan_before(p_fan uuid, p_first int, OUT o_fan uuid, OUT o_run uuid) LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
BEGIN
  SELECT r.retry_of INTO o_run FROM step s, run r WHERE s.step_id = p_fan AND r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
  WHILE o_run IS NOT NULL LOOP
    o_fan := fan_in(o_run, p_fan);
    IF EXISTS (SELECT FROM step s WHERE s.fan_id = o_fan AND s.idx = p_first) THEN RETURN; END IF;
    SELECT r.retry_of INTO o_run FROM run r WHERE r.run_id = o_run;
  END LOOP;
  o_fan := NULL;
END $$;

-- purpose: the fan-out of another run that stands where this one does: the same node in the same branch, at every level
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION fan_in(p_run uuid, p_fan uuid) RETURNS uuid LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
DECLARE
  f step;
  v_outer uuid;
BEGIN
  SELECT * INTO f FROM step x WHERE x.step_id = p_fan;
  IF f.fan_id IS NULL THEN
    RETURN (SELECT s.step_id FROM step s WHERE s.run_id = p_run AND s.tenant_id = f.tenant_id AND s.kind = 'fan' AND s.fan_id IS NULL AND s.node = f.node ORDER BY s.round DESC, s.step_id DESC LIMIT 1);
  END IF;
  v_outer := fan_in(p_run, f.fan_id);
  RETURN (SELECT s.step_id FROM step s WHERE s.fan_id = v_outer AND s.idx = f.idx AND s.tenant_id = f.tenant_id AND s.kind = 'fan' AND s.node = f.node ORDER BY s.round DESC, s.step_id DESC LIMIT 1);
END $$;

-- purpose: where the content of a version is, to whoever holds a lease in its tenant; no row: the lease is not the current one
-- transition: none
-- fenced by: the step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION find_artifact(p_step uuid, p_fence bigint, p_version uuid) RETURNS TABLE (version_id uuid, name text, number int, sha256 bytea, size bigint, media_type text) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT v.version_id, a.name, v.number, v.sha256, v.size, v.media_type FROM step s
  LEFT JOIN artifact_version v ON v.version_id = p_version AND v.tenant_id = s.tenant_id AND v.state = 'available'
  LEFT JOIN artifact a ON a.artifact_id = v.artifact_id AND a.tenant_id = v.tenant_id
  WHERE s.step_id = p_step AND s.fence = p_fence
$$;

-- purpose: what an idle worker may lease without an offer: the fact is in the table, and its message may be lost, late, or with a busy worker
-- transition: none
-- fenced by: nothing; lease decides
-- locks: none
CREATE FUNCTION find_ready(p_queues text[], p_definitions text[], p_tenants uuid[], p_older_ms int, p_limit int) RETURNS SETOF uuid LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT x.step_id FROM unnest(p_queues) q(queue), LATERAL (
    SELECT r.step_id FROM ready r
    WHERE r.queue = q.queue AND r.offered_at IS NOT NULL AND r.offered_at < clock() - p_older_ms * interval '1 ms'
      AND r.workflow || '@' || r.workflow_version = ANY (p_definitions) AND (p_tenants IS NULL OR r.tenant_id = ANY (p_tenants))
      AND (SELECT z.since FROM queue_pause z WHERE z.queue = r.queue AND z.tenant_id = r.tenant_id) IS NULL
      AND (SELECT may_be_leased(s.state, s.kind, u.state, u.paused_at) FROM step s, run u WHERE s.step_id = r.step_id AND u.run_id = s.run_id)
    ORDER BY r.offered_at LIMIT p_limit) x
  LIMIT p_limit
$$;

-- purpose: the steps of a scope's instance by their nodes' names: for the planner, and for a worker whose step chooses another
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION find_steps(p_tenant uuid, p_run uuid, p_fan uuid, p_idx int, p_nodes text[]) RETURNS TABLE (node text, step_id uuid, round int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT coalesce(s.answers, s.node), s.step_id, s.round FROM step s
  WHERE p_fan IS NOT NULL AND s.fan_id = p_fan AND s.idx = p_idx AND s.tenant_id = p_tenant AND coalesce(s.answers, s.node) = ANY (p_nodes) AND s.replaced_by IS NULL
  UNION ALL
  SELECT coalesce(s.answers, s.node), s.step_id, s.round FROM step s
  WHERE p_fan IS NULL AND s.run_id = p_run AND s.fan_id IS NULL AND s.tenant_id = p_tenant AND coalesce(s.answers, s.node) = ANY (p_nodes) AND s.replaced_by IS NULL
  ORDER BY 3
$$;

-- purpose: the tasks of submissions that were accepted before, by key or message id as submit finds them, and whether these say the same
-- transition: none
-- fenced by: nothing; submit decides on what is new
-- locks: none
CREATE FUNCTION find_submitted(p_tenants uuid[], p_keys text[], p_messages text[], p_digests bytea[]) RETURNS TABLE (ord int, outcome text, task_id uuid, run_id uuid, state text)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT x.n::int - 1, CASE WHEN t.payload_digest = x.digest THEN 'duplicate' ELSE 'conflict' END, t.task_id, t.run_id, t.state
  FROM unnest(p_tenants, p_keys, p_messages, p_digests) WITH ORDINALITY x(tenant_id, key, message, digest, n),
  LATERAL (SELECT y.* FROM task y WHERE y.tenant_id = x.tenant_id AND y.task_id = coalesce(
    (SELECT k.task_id FROM task k WHERE k.tenant_id = x.tenant_id AND k.idempotency_key = x.key),
    (SELECT i.subject FROM inbox i WHERE i.message_id = x.message AND i.consumer = 'task-service' AND i.tenant_id = x.tenant_id))) t
  ORDER BY x.n
$$;

-- purpose: whether a value that is no blob is content of an available version, to whoever holds a lease in that tenant: its size
-- transition: none
-- fenced by: the step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION find_value(p_step uuid, p_fence bigint, p_sha256 bytea) RETURNS bigint LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT v.size FROM step s, artifact_version v WHERE s.step_id = p_step AND s.fence = p_fence AND v.sha256 = p_sha256 AND v.tenant_id = s.tenant_id AND v.state = 'available' LIMIT 1
$$;

-- purpose: what became of a try: sent, due again after a delay, or given up after its time; false: another courier has it, or it is gone
-- transition: webhook delivery due -> sent|due|failed; when it is given up, webhook active -> failed and what else waits for it is held
-- fenced by: the delivery's fence
-- locks: the webhook when it is given up, then its deliveries; the audit chain last
CREATE FUNCTION finish_delivery(p_tenant uuid, p_delivery uuid, p_fence bigint, p_sent boolean, p_status int, p_error text, p_delay_ms bigint) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  d webhook_delivery;
BEGIN
  UPDATE webhook_delivery x SET tries = x.tries + 1, status = p_status, error = p_error,
    state = CASE WHEN p_sent THEN 'sent' WHEN x.give_up_at <= clock() THEN 'failed' ELSE 'due' END,
    ended_at = CASE WHEN p_sent OR x.give_up_at <= clock() THEN clock() END,
    -- one that was held meanwhile stays held
    due_at = CASE WHEN p_sent OR x.give_up_at <= clock() OR x.due_at IS NULL THEN NULL ELSE clock() + p_delay_ms * interval '1 ms' END
  WHERE x.delivery_id = p_delivery AND x.tenant_id = p_tenant AND x.fence = p_fence AND x.state = 'due' RETURNING * INTO d;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF d.state = 'failed' THEN
    UPDATE webhook w SET state = 'failed', changed_at = clock() WHERE w.webhook_id = d.webhook_id AND w.tenant_id = p_tenant AND w.state = 'active';
    IF FOUND THEN
      UPDATE webhook_delivery x SET due_at = NULL WHERE x.webhook_id = d.webhook_id AND x.tenant_id = p_tenant AND x.state = 'due';
      PERFORM note_act(p_tenant, 'engine', 'webhook.fail', d.webhook_id::text, jsonb_build_object('delivery', p_delivery, 'tries', d.tries, 'status', p_status, 'error', p_error));
    END IF;
  END IF;
  RETURN d.state;
END $$;

-- purpose: a job is done, goes on later, or failed and is tried again later; false: another worker has it
-- transition: maintenance job running -> done|due|failed
-- fenced by: the job's fence
-- locks: the job
CREATE FUNCTION finish_maintenance(p_kind text, p_key text, p_tenant uuid, p_fence bigint, p_outcome text, p_result jsonb, p_wait_ms bigint, p_tries int) RETURNS text LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH o AS (
    SELECT j.kind, j.key, j.tenant_id, CASE p_outcome WHEN 'done' THEN 'done' WHEN 'failed' THEN CASE WHEN j.tries + 1 >= p_tries THEN 'failed' ELSE 'due' END ELSE 'due' END AS state
    FROM maintenance_job j WHERE j.kind = p_kind AND j.key = p_key AND j.tenant_id = p_tenant AND j.fence = p_fence AND j.state = 'running' FOR NO KEY UPDATE
  )
  UPDATE maintenance_job j SET state = o.state, result = p_result, lease_until = NULL, tries = CASE p_outcome WHEN 'failed' THEN j.tries + 1 ELSE 0 END,
    due_at = CASE o.state WHEN 'due' THEN clock() + p_wait_ms * interval '1 ms' ELSE j.due_at END, finished_at = CASE WHEN o.state <> 'due' THEN clock() END
  FROM o WHERE j.kind = o.kind AND j.key = o.key AND j.tenant_id = o.tenant_id
  RETURNING j.state
$$;

-- purpose: nobody decided in time: the approval expires, and its step goes on with a no, or fails
-- transition: approval requested -> expired; step waiting -> succeeded|failed
-- fenced by: the approval's state and time, looked at under its lock
-- locks: the step (skipped when locked: the timer stays due), then the approval
CREATE FUNCTION fire_approval(t timer, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  a approval;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_settled := '{}';
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN; END IF;
  SELECT * INTO a FROM approval x WHERE x.step_id = s.step_id AND x.fence = s.fence AND x.tenant_id = s.tenant_id AND x.state <> 'replaced' FOR NO KEY UPDATE;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  IF s.state = 'waiting' AND a.state = 'requested' AND a.expires_at <= clock() THEN
    SELECT x.o_arrivals, x.o_after, x.o_settled INTO o_arrivals, o_after, o_settled FROM end_approval(a, 'expired', NULL, 'nobody decided in time') x;
  END IF;
END $$;

-- purpose: a join's time is over and its rule does not hold
-- transition: barrier waiting -> failed
-- fenced by: the barrier's state
-- locks: the barrier, then what it holds
CREATE FUNCTION fire_barrier_deadline(t timer) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  d record;
BEGIN
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = t.target_id AND x.state = 'waiting' FOR NO KEY UPDATE;
  IF FOUND THEN
    SELECT * INTO d FROM fail_barrier(b, 'its deadline passed');
    -- all may have settled already, when failed children held it
    IF b.slots = 0 AND b.succeeded + b.failed + b.skipped >= b.expected THEN d.o_after := d.o_after || close_barrier(b); END IF;
    PERFORM spread(d.o_arrivals, d.o_skipped, d.o_after);
  END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
END $$;

-- purpose: a probe is due: the step may be leased by whoever has its workflow, to ask what became of its operations
-- transition: none (lease moves it)
-- fenced by: the step being unknown, in the version that the timer names
-- locks: the step (skipped when locked: the timer stays due)
CREATE FUNCTION fire_probe(t timer) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN '{}'; END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  RETURN CASE WHEN s.state = 'unknown' AND s.version = t.version THEN ARRAY[s.step_id] ELSE '{}' END;
END $$;

-- purpose: a step's retry delay is over
-- transition: step retry_wait -> ready
-- fenced by: the version at which the delay was set
-- locks: the step (skipped when locked: the timer stays due)
CREATE FUNCTION fire_retry(t timer) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN '{}'; END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  UPDATE step x SET state = 'ready', version = x.version + 1, updated_at = clock() WHERE x.step_id = t.target_id AND x.state = 'retry_wait' AND x.version = t.version RETURNING * INTO s;
  IF NOT FOUND THEN RETURN '{}'; END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, actor) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepReady', s.version, 'timer');
  RETURN ARRAY[s.step_id];
END $$;

-- purpose: a step did not start, or not end, in the time it was given; what runs ends with its lease, which is never renewed past the attempt's deadline
-- transition: step pending|ready|retry_wait -> failed
-- fenced by: the step's state
-- locks: the step (skipped when locked: the timer stays due), then those that only it could have started
CREATE FUNCTION fire_step_deadline(t timer, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_settled uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  d record;
  v_error jsonb := CASE t.kind WHEN 'start_deadline' THEN jsonb_build_object('code', 'E-STEP-23', 'what', 'no worker took it in the time it was given')
    ELSE jsonb_build_object('code', 'E-STEP-23', 'what', 'its total time is over') END;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_settled := '{}';
  SELECT * INTO s FROM step x WHERE x.step_id = t.target_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN; END IF;
  IF t.kind = 'step_deadline' AND (s.state IN ('leased', 'running', 'unknown', 'reconciling') OR s.expires_at > clock()) THEN
    -- it runs: its attempt ends at this deadline, and may leave it in a state that has to end; or it was reopened with a new time
    UPDATE timer x SET due_at = greatest(s.expires_at, clock() + interval '1 s') WHERE x.timer_id = t.timer_id;
    RETURN;
  END IF;
  IF t.kind = 'start_deadline' AND s.state = 'leased' AND NOT has_begun(s.step_id) THEN
    -- handed out, not begun: it may be given back
    UPDATE timer x SET due_at = clock() + interval '1 s' WHERE x.timer_id = t.timer_id;
    RETURN;
  END IF;
  DELETE FROM timer x WHERE x.timer_id = t.timer_id;
  IF s.state NOT IN ('pending', 'ready', 'retry_wait') OR (t.kind = 'start_deadline' AND has_begun(s.step_id)) THEN RETURN; END IF;
  UPDATE step x SET state = 'failed', version = x.version + 1, updated_at = clock() WHERE x.step_id = t.target_id RETURNING * INTO s;
  DELETE FROM ready y WHERE y.step_id = s.step_id;
  SELECT * INTO d FROM step_failed(s, v_error);
  o_arrivals := d.o_arrivals;
  o_after := d.o_after;
  o_settled := s.step_id || d.o_skipped;
END $$;

-- purpose: do what is due, or (p_only) one of it: retries, deadlines of joins, steps, approvals and tasks; expansions are the planner's
-- transition: step retry_wait -> ready, pending|ready|retry_wait -> failed, waiting -> succeeded|failed; barrier waiting -> failed; run -> cancelling
-- fenced by: each target's state and version, looked at under its lock
-- locks: all steps first (skipping locked ones), then what follows from them; a join's deadline has a transaction of its own, since it starts with a barrier
CREATE FUNCTION fire_timers(p_limit int, p_only uuid DEFAULT NULL) RETURNS TABLE (fired int, more boolean) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_aside uuid[] := aside('timer');
  t timer;
  d record;
  v_fired int := 0;
  v_ready uuid[] := '{}';
  v_failed uuid[] := '{}';
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
BEGIN
  FOR t IN
    (SELECT x.* FROM timer x WHERE p_only IS NULL AND x.due_at <= v_now AND x.kind <> 'expand' AND x.timer_id <> ALL (v_aside) ORDER BY x.due_at LIMIT p_limit)
    UNION ALL SELECT x.* FROM timer x WHERE x.timer_id = p_only AND x.due_at <= v_now AND x.kind <> 'expand'
  LOOP
    IF t.kind = 'barrier_deadline' THEN
      CONTINUE WHEN v_fired > 0;
      PERFORM fire_barrier_deadline(t);
      RETURN QUERY SELECT 1, true;
      RETURN;
    END IF;
    v_fired := v_fired + 1;
    IF t.kind = 'retry' THEN
      v_ready := v_ready || fire_retry(t);
    ELSIF t.kind = 'probe' THEN
      v_ready := v_ready || fire_probe(t);
    ELSIF t.kind = 'approval' THEN
      SELECT * INTO d FROM fire_approval(t);
      v_arrivals := v_arrivals || d.o_arrivals;
      v_after := v_after || d.o_after;
      v_failed := v_failed || d.o_settled;
    ELSIF t.kind IN ('start_deadline', 'step_deadline') THEN
      SELECT * INTO d FROM fire_step_deadline(t);
      v_arrivals := v_arrivals || d.o_arrivals;
      v_after := v_after || d.o_after;
      v_failed := v_failed || d.o_settled;
    ELSE
      IF t.kind = 'task_deadline' THEN
        v_after := v_after || ROW(t.run_id, 0, jsonb_build_object('code', 'E-TASK-03', 'what', 'the task''s deadline passed'), NULL, NULL)::aftermath;
      END IF;
      DELETE FROM timer x WHERE x.timer_id = t.timer_id;
    END IF;
  END LOOP;
  PERFORM make_ready(v_ready);
  PERFORM spread(v_arrivals, v_failed, v_after);
  RETURN QUERY SELECT v_fired, v_fired = p_limit;
END $$;

-- purpose: make a version of a lease visible, once its content is stored and verified
-- transition: artifact_version pending -> available
-- fenced by: the step's fence; a stale writer is refused, and recorded
-- locks: the step, then the version, the object, its removal, the artifact
CREATE FUNCTION flip_artifact(p_worker uuid, p_step uuid, p_fence bigint, p_version uuid, p_sha256 bytea, p_size bigint) RETURNS TABLE (outcome text, number int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  s step;
  v artifact_version;
BEGIN
  SELECT x.* INTO s FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  SELECT x.* INTO v FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = s.tenant_id AND x.step_id = p_step AND x.fence = p_fence FOR NO KEY UPDATE;
  IF v.version_id IS NULL OR (v.state <> 'available' AND (s.fence <> p_fence OR s.state NOT IN ('leased', 'running'))) THEN
    PERFORM refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], NULL, 'flip_artifact', '');
    RETURN QUERY SELECT 'superseded', NULL::int;
    RETURN;
  END IF;
  RETURN QUERY SELECT f.outcome, f.number FROM flip_version(v, p_sha256, p_size) f;
END $$;

-- purpose: make a version that a person or a key uploaded visible, once its content is stored and verified
-- transition: artifact_version pending -> available
-- fenced by: the version's state; a task whose payloads were removed takes no more
-- locks: the task (shared), then the version, the object, its removal, the artifact; the audit chain last
CREATE FUNCTION flip_upload(p_tenant uuid, p_version uuid, p_sha256 bytea, p_size bigint) RETURNS TABLE (outcome text, number int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v artifact_version;
  v_found record;
BEGIN
  PERFORM FROM task t WHERE t.tenant_id = p_tenant AND t.task_id = (SELECT x.task_id FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = p_tenant) AND t.payload_removed_at IS NULL FOR SHARE;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'abandoned', NULL::int;
    RETURN;
  END IF;
  SELECT x.* INTO v FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = p_tenant AND x.step_id IS NULL FOR NO KEY UPDATE;
  SELECT f.outcome, f.number INTO v_found FROM flip_version(v, p_sha256, p_size) f;
  IF v_found.outcome = 'available' AND v.state = 'pending' THEN
    PERFORM note_act(p_tenant, v.actor, 'artifact.put', p_version::text, jsonb_build_object('task', v.task_id, 'number', v_found.number, 'sha256', encode(p_sha256, 'hex'), 'size', p_size));
  END IF;
  RETURN QUERY SELECT v_found.outcome, v_found.number;
END $$;

-- purpose: a version becomes visible, with the next number; `swept` when its content was, or is being, removed since it was begun
-- transition: artifact_version pending -> available
-- fenced by: the version's state under its lock, and the removals of its content; the row trigger looks at the step's fence
-- locks: the object, its removal, then the artifact; the caller holds the version
CREATE FUNCTION flip_version(v artifact_version, p_sha256 bytea, p_size bigint) RETURNS TABLE (outcome text, number int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_number int;
  r object_removal;
BEGIN
  IF v.state = 'available' AND v.sha256 = p_sha256 AND v.size = p_size THEN
    RETURN QUERY SELECT 'available', v.number;  -- asked again, since the answer got lost
    RETURN;
  END IF;
  IF v.state <> 'pending' THEN
    RETURN QUERY SELECT 'abandoned', NULL::int;
    RETURN;
  END IF;
  PERFORM lock_object(v.tenant_id, p_sha256);
  SELECT x.* INTO r FROM object_removal x WHERE x.sha256 = p_sha256 AND x.tenant_id = v.tenant_id FOR UPDATE;
  IF r.begun_at IS NOT NULL AND (r.removed_at IS NULL OR r.removed_at >= v.created_at) THEN
    RETURN QUERY SELECT 'swept', NULL::int;
    RETURN;
  END IF;
  -- a removal that was asked for and not begun is called off: the content is named again
  DELETE FROM object_removal x WHERE x.sha256 = p_sha256 AND x.tenant_id = v.tenant_id;
  UPDATE artifact a SET latest = a.latest + 1 WHERE a.artifact_id = v.artifact_id AND a.tenant_id = v.tenant_id RETURNING a.latest INTO v_number;
  v_now := clock();
  UPDATE artifact_version x SET state = 'available', version = x.version + 1, number = v_number, sha256 = p_sha256, size = p_size, available_at = v_now WHERE x.version_id = v.version_id AND x.tenant_id = v.tenant_id;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body)
  SELECT v.tenant_id, v.run_id, v.step_id, 'ArtifactAvailable', v.version + 1, v.fence, v_now, v.actor,
    jsonb_build_object('artifact', v.version_id, 'name', a.name, 'number', v_number, 'sha256', encode(p_sha256, 'hex'), 'size', p_size) FROM artifact a WHERE a.artifact_id = v.artifact_id AND a.tenant_id = v.tenant_id;
  RETURN QUERY SELECT 'available', v_number;
END $$;

-- purpose: put samples of ten seconds together into spans of five minutes, the oldest that is not folded first, and no further than an hour at a time
-- transition: none
-- fenced by: the primary key: a span that was folded stays as it is
-- locks: only new rows
CREATE FUNCTION fold_samples(p_settled interval) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_platform uuid := '00000000-0000-0000-0000-000000000000';
  v_span interval := interval '300 s';
  v_to timestamptz := date_bin(v_span, clock() - p_settled, '2000-01-01Z');
  v_from timestamptz := coalesce((SELECT max(x.slot) + v_span FROM sample x WHERE x.tenant_id = v_platform AND x.seconds = 300), '-infinity');
  v_n int;
BEGIN
  v_from := date_bin(v_span, (SELECT min(x.slot) FROM sample x WHERE x.tenant_id = v_platform AND x.seconds = 10 AND x.slot >= v_from), '2000-01-01Z');
  IF v_from IS NULL OR v_from >= v_to THEN RETURN 0; END IF;
  INSERT INTO sample (tenant_id, seconds, slot, body)
  SELECT f.tenant_id, 300, f.slot, f.body FROM folded(NULL, 300, v_from, v_from, least(v_to, v_from + interval '1 hour')) f ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: samples put together into longer spans: counts are added up, of levels the highest stays; up to `p_middle` from spans of five minutes, behind it from those of ten seconds
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION folded(p_tenant uuid, p_into int, p_from timestamptz, p_middle timestamptz, p_to timestamptz) RETURNS TABLE (tenant_id uuid, slot timestamptz, body jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH s AS MATERIALIZED (
    SELECT x.tenant_id, date_bin(p_into * interval '1 s', x.slot, '2000-01-01Z') AS slot, x.body
    FROM (VALUES (300, p_from, p_middle), (10, p_middle, p_to)) r(seconds, since, till), sample x
    WHERE x.seconds = r.seconds AND x.slot >= r.since AND x.slot < r.till AND (p_tenant IS NULL OR x.tenant_id = p_tenant)
  ), v AS (
    SELECT s.tenant_id, s.slot, p.part, e.key, CASE p.part WHEN 'counts' THEN sum(e.value::float8) ELSE max(e.value::float8) END AS value
    FROM s CROSS JOIN (VALUES ('counts'), ('levels')) p(part) CROSS JOIN LATERAL jsonb_each_text(s.body->p.part) e GROUP BY 1, 2, 3, 4
  )
  -- a span in which nothing happened was looked at all the same
  SELECT t.tenant_id, t.slot, jsonb_build_object('counts', coalesce(jsonb_object_agg(v.key, v.value) FILTER (WHERE v.part = 'counts'), '{}'), 'levels', coalesce(jsonb_object_agg(v.key, v.value) FILTER (WHERE v.part = 'levels'), '{}'))
  FROM (SELECT DISTINCT s.tenant_id, s.slot FROM s) t LEFT JOIN v ON v.tenant_id = t.tenant_id AND v.slot = t.slot GROUP BY 1, 2
$$;

-- purpose: what follows when a step ends without a result: its arrivals, and the end of those that only it could have started (the targets of its choice, the joins of a fan-out that never opened)
-- transition: targets and joins pending -> skipped; a join that others feed goes on without the fan-out that was skipped
-- fenced by: the caller settled the step in this transaction
-- locks: the targets, in the order of the graph
CREATE FUNCTION follow(s step, p_how text, p_reason jsonb, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_target uuid;
  x record;
BEGIN
  o_arrivals := arrivals_of(s, p_how);
  o_after := '{}';
  o_skipped := '{}';
  -- a failed step that holds its branch may be reopened and choose then
  IF p_how = 'bad' AND s.state = 'failed' AND is_held(s) THEN RETURN; END IF;
  FOREACH v_target IN ARRAY coalesce(CASE WHEN s.kind = 'fan' THEN s.feeds ELSE s.chooses END, '{}') LOOP
    IF s.kind = 'fan' AND p_how <> 'bad' THEN SELECT * INTO x FROM pass_over(v_target, p_reason); ELSE SELECT * INTO x FROM skip_step(v_target, p_reason, p_how = 'bad'); END IF;
    o_arrivals := o_arrivals || x.o_arrivals;
    o_after := o_after || x.o_after;
    o_skipped := o_skipped || x.o_skipped;
  END LOOP;
END $$;

-- purpose: rows of jobs that ended long ago; of a job in bulk what it came to goes first, a part at a time
-- transition: none; they go
-- fenced by: nothing
-- locks: the rows (skipping locked ones), and those of their targets
CREATE FUNCTION forget_maintenance(p_seconds bigint, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
  v_targets int;
BEGIN
  DELETE FROM job_target t WHERE (t.job_id, t.target_id, t.tenant_id) IN (
    SELECT y.job_id, y.target_id, y.tenant_id FROM maintenance_job x JOIN job_target y ON y.job_id = x.key::uuid AND y.tenant_id = x.tenant_id
    WHERE x.finished_at < clock() - p_seconds * interval '1 s' AND x.kind = 'bulk' LIMIT p_limit);
  GET DIAGNOSTICS v_targets = ROW_COUNT;
  IF v_targets = p_limit THEN RETURN v_targets; END IF;
  DELETE FROM maintenance_job j WHERE (j.kind, j.key, j.tenant_id) IN (
    SELECT x.kind, x.key, x.tenant_id FROM maintenance_job x WHERE x.finished_at < clock() - p_seconds * interval '1 s' ORDER BY x.finished_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: forget removals that ended so long ago that no upload from before them can still be flipped
-- transition: none
-- fenced by: the grace time, after which an upload is abandoned
-- locks: removals
CREATE FUNCTION forget_removals(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM object_removal r WHERE (r.sha256, r.tenant_id) IN (
    SELECT x.sha256, x.tenant_id FROM object_removal x WHERE x.removed_at < clock() - p_older AND NOT EXISTS (SELECT FROM artifact_version v WHERE v.state = 'pending' AND v.created_at <= x.removed_at)
    ORDER BY x.removed_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: the join that a step reads; of a further round of a joining step it is the one that its first round waited for
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION gather_of(j step, p_fan uuid) RETURNS SETOF barrier LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.* FROM barrier b WHERE b.fan_id = p_fan AND b.kind = 'gather' AND b.step_id IS NOT NULL AND b.node = j.node AND b.tenant_id = j.tenant_id
$$;

-- purpose: the joins over a fan-out, by the node that they are named for
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION gathers_of(p_fan uuid) RETURNS TABLE (barrier_id uuid, node text) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.barrier_id, b.node FROM barrier b WHERE b.fan_id = p_fan AND b.kind = 'gather'
$$;

-- purpose: a value by its content's name, to whoever holds a lease in that tenant
-- transition: none
-- fenced by: the step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION get_blob(p_step uuid, p_fence bigint, p_sha256 bytea) RETURNS bytea LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.body FROM step s, blob b WHERE s.step_id = p_step AND s.fence = p_fence AND b.sha256 = p_sha256 AND b.tenant_id = s.tenant_id
$$;

-- purpose: one parked message with its bytes, of a tenant, or (without a tenant) one that belongs to none
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION get_dead_letter(p_tenant uuid, p_id uuid)
RETURNS TABLE (dead_letter_id uuid, topic text, partition int, "offset" bigint, key bytea, value bytea, headers jsonb, code text, reason text, at timestamptz, redriven_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.dead_letter_id, d.topic, d.partition, d."offset", d.key, d.value, d.headers, d.code, d.reason, d.at, d.redriven_at FROM dead_letter d
  WHERE d.dead_letter_id = p_id AND d.tenant_id IS NOT DISTINCT FROM p_tenant
$$;

-- purpose: the graph of a workflow's version, or of its newest one
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION get_workflow(p_name text, p_version int) RETURNS TABLE (version int, graph jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT w.version, w.graph FROM workflow w WHERE w.name = p_name AND (p_version IS NULL OR w.version = p_version) ORDER BY w.version DESC LIMIT 1
$$;

-- purpose: hand back leases at shutdown, or what was leased ahead and can't start soon; it costs no attempt
-- transition: step leased|running|reconciling -> ready, or unknown; attempt -> released
-- fenced by: each step's own fence
-- locks: steps by id
CREATE FUNCTION give_back(p_worker uuid, p_steps uuid[], p_fences bigint[], p_why text) RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_done uuid[];
  v_aside uuid[];
BEGIN
  PERFORM FROM step s WHERE s.step_id = ANY (p_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  v_now := clock();
  v_aside := set_aside_doubtful(p_worker, p_steps, p_fences, ARRAY(SELECT jsonb_build_object('code', 'E-OP-10', 'what', p_why) FROM unnest(p_steps)), 0);
  WITH u AS (
    UPDATE step s SET state = 'ready', version = s.version + 1, proof = p_fences[array_position(p_steps, s.step_id)], updated_at = v_now
    WHERE s.step_id = ANY (p_steps) AND s.state IN ('leased', 'running', 'reconciling') AND s.fence = p_fences[array_position(p_steps, s.step_id)]
    RETURNING s.tenant_id, s.step_id, s.run_id, s.version, s.fence
  ), a AS (
    UPDATE attempt t SET state = 'released', ended_at = v_now WHERE t.step_id = ANY (p_steps) AND t.fence = p_fences[array_position(p_steps, t.step_id)] AND t.ended_at IS NULL
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, body)
    SELECT u.tenant_id, u.run_id, u.step_id, 'StepReleased', u.version, u.fence, v_now, jsonb_build_object('why', p_why) FROM u
  )
  SELECT array_agg(u.step_id) INTO v_done FROM u;
  PERFORM make_ready(v_done);
  v_done := v_done || v_aside;
  IF coalesce(cardinality(v_done), 0) < cardinality(p_steps) THEN
    RETURN QUERY SELECT unnest(refuse(p_worker, p_steps, p_fences, v_done, 'give_back', 'released'));
  END IF;
  RETURN QUERY SELECT unnest(v_done);
END $$;

-- purpose: hand back what was leased to a worker that never learned of it, since the answer was lost: no code of it ran, so it costs no attempt
-- transition: those of give_back
-- fenced by: each step's own fence, as the worker's open attempt has it; an attempt that was reported to run is held by somebody
-- locks: steps by id
CREATE FUNCTION give_back_unheld(p_worker uuid, p_steps uuid[], p_fences bigint[]) RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_steps uuid[];
  v_fences bigint[];
BEGIN
  v_steps := ARRAY(SELECT a.step_id FROM attempt a WHERE a.ended_at IS NULL AND a.worker_id = p_worker AND a.state = 'granted' AND (a.step_id, a.fence) NOT IN (SELECT * FROM unnest(p_steps, p_fences)));
  IF v_steps = '{}' THEN RETURN; END IF;
  PERFORM FROM step s WHERE s.step_id = ANY (v_steps) ORDER BY s.step_id FOR NO KEY UPDATE;
  -- that it would begin at once was said when it was granted; its time to start runs on. Looked at again under the lock: the reaper may have been faster
  WITH u AS (
    UPDATE attempt a SET started_at = NULL, deadline_at = NULL
    WHERE a.step_id = ANY (v_steps) AND a.ended_at IS NULL AND a.worker_id = p_worker AND a.state = 'granted' AND (a.step_id, a.fence) NOT IN (SELECT * FROM unnest(p_steps, p_fences)) RETURNING a.step_id, a.fence
  ) SELECT array_agg(u.step_id), array_agg(u.fence) INTO v_steps, v_fences FROM u;
  IF v_steps IS NOT NULL THEN RETURN QUERY SELECT * FROM give_back(p_worker, v_steps, v_fences, 'the answer to its lease was lost'); END IF;
END $$;

-- purpose: an operation was certainly not done: what was booked for it goes back to the budgets that it came from
-- transition: none
-- fenced by: the caller holds the operation, and moved it to a state that says so
-- locks: the budgets by task and unit
CREATE FUNCTION give_cost_back(o operation, p_fence bigint) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  x record;
BEGIN
  IF o.cost IS NULL THEN RETURN; END IF;
  FOR x IN SELECT y.task_id, y.unit, sum(y.amount) AS amount FROM spending y WHERE y.operation_id = o.operation_id AND y.tenant_id = o.tenant_id GROUP BY y.task_id, y.unit HAVING sum(y.amount) > 0 ORDER BY y.task_id, y.unit LOOP
    INSERT INTO spending (tenant_id, spending_id, task_id, run_id, step_id, fence, operation_id, unit, amount)
    VALUES (o.tenant_id, uuidv7(), x.task_id, o.run_id, o.step_id, p_fence, o.operation_id, x.unit, -x.amount);
    PERFORM note_budget(o.tenant_id, o.run_id, o.step_id, 'BudgetReturned', p_fence, jsonb_build_object('unit', x.unit, 'amount', x.amount, 'operation', o.operation_id));
  END LOOP;
END $$;

-- purpose: nothing of a step is in doubt any more: it becomes ready, or is cancelled when its run winds down
-- transition: step unknown|reconciling -> ready|cancelled
-- fenced by: the proof that the caller presents, and that no doubt is left
-- locks: the caller holds the step; the run (shared)
CREATE FUNCTION go_on(s step, p_proof bigint, p_actor text, p_body jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ends boolean := (SELECT r.state = 'cancelling' AND s.kind <> 'undo' FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id FOR SHARE);
BEGIN
  DELETE FROM ready y WHERE y.step_id = s.step_id;
  DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind = 'probe';
  UPDATE step x SET state = CASE WHEN v_ends THEN 'cancelled' ELSE 'ready' END, doubts = s.doubts, version = x.version + 1, proof = p_proof, updated_at = clock() WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id RETURNING * INTO s;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body)
  VALUES (s.tenant_id, s.run_id, s.step_id, CASE WHEN v_ends THEN 'StepCancelled' ELSE 'StepSettled' END, s.version, nullif(greatest(p_proof, 0), 0), s.updated_at, p_actor, p_body);
  IF NOT v_ends THEN PERFORM make_ready(ARRAY[s.step_id]); END IF;
  RETURN s.state;
END $$;

-- purpose: what a partition of events does not get from its table: row-level security of its own, and the refusal of TRUNCATE
-- transition: none
-- fenced by: nothing
-- locks: the partition
CREATE FUNCTION guard_partition(p_name text) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', p_name);
  EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', p_name);
  EXECUTE format('CREATE TRIGGER never_truncated BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', p_name);
END $$;

-- purpose: whether any attempt of a step ever began: until then its time to start runs on, however often it was handed out and given back
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION has_begun(p_step uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT EXISTS (SELECT FROM attempt a WHERE a.step_id = p_step AND a.started_at IS NOT NULL)
$$;

-- purpose: whether a step's result is a decision that allows nothing any more: a new run asks again instead of taking it over
-- transition: none
-- fenced by: nothing: what the new run sends is looked at again
-- locks: none
CREATE FUNCTION has_lapsed(p_tenant uuid, p_step uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM result x JOIN step s ON s.step_id = x.step_id AND s.tenant_id = x.tenant_id JOIN run r ON r.run_id = s.run_id AND r.tenant_id = s.tenant_id
      JOIN approval a ON a.task_id = r.task_id AND a.tenant_id = r.tenant_id AND a.approval_id::text = x.body->>'approval_id'
      LEFT JOIN operation o ON o.operation_id = a.spent_by AND o.tenant_id = a.tenant_id
    WHERE x.step_id = p_step AND x.tenant_id = p_tenant AND x.body ? 'approval_id'
      AND NOT coalesce(CASE a.state WHEN 'granted' THEN a.expires_at > clock() AND votes_for(a) >= a.needs WHEN 'spent' THEN a.expires_at > clock() OR o.state NOT IN ('prepared', 'not_done') END, false))
$$;

-- purpose: the text of a kept header, as headers of dead letters are kept: [name, text]
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION header_of(p_headers jsonb, p_name text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = stanchion, pg_temp AS $$
  SELECT h->>1 FROM jsonb_array_elements(p_headers) h WHERE h->>0 = p_name LIMIT 1
$$;

-- purpose: an approval that somebody decides, changes or takes back, held together with the step that waits for it
-- transition: none
-- fenced by: nothing: what is decided is looked at under the lock
-- locks: the step, then the approval
CREATE FUNCTION hold_approval(p_tenant uuid, p_approval uuid) RETURNS approval LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  a approval;
BEGIN
  SELECT * INTO a FROM approval x WHERE x.approval_id = p_approval AND x.tenant_id = p_tenant;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such approval in this tenant'; END IF;
  PERFORM FROM step s WHERE s.step_id = a.step_id AND s.tenant_id = p_tenant FOR NO KEY UPDATE;
  SELECT * INTO a FROM approval x WHERE x.approval_id = p_approval AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  RETURN a;
END $$;

-- purpose: keep others from spending of a task's budget until this is committed
-- transition: none
-- fenced by: nothing
-- locks: the rows of the budget by unit: after steps, operations and approvals, before runs
CREATE FUNCTION hold_budget(p_tenant uuid, p_task uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM FROM budget b WHERE b.task_id = p_task AND b.tenant_id = p_tenant ORDER BY b.unit FOR NO KEY UPDATE;
END $$;

-- purpose: keep the budgets that an operation was charged to as they are until this is committed
-- transition: none
-- fenced by: the caller holds the operation
-- locks: the rows of the budgets by task and unit: before runs
CREATE FUNCTION hold_costs(o operation) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM hold_budget(o.tenant_id, x.task_id) FROM (SELECT DISTINCT y.task_id FROM spending y WHERE y.operation_id = o.operation_id AND y.tenant_id = o.tenant_id ORDER BY y.task_id) x;
END $$;

-- purpose: keep a run from ending while what was just inserted into it is committed; refused when it has ended
-- transition: none
-- fenced by: the run's row lock: whoever ends a run looks for open steps under it
-- locks: the run
CREATE FUNCTION hold_run(p_run uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  PERFORM FROM run r WHERE r.run_id = p_run AND r.ended_at IS NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-CONFLICT-01 the run has ended meanwhile'; END IF;
END $$;

-- purpose: the step that an attempt holds, locked until commit; nothing when the attempt is not its holder any more, which is then on record
-- transition: none
-- fenced by: the step's own fence
-- locks: the step
CREATE FUNCTION holder_of(p_worker uuid, p_step uuid, p_fence bigint, p_attempted text) RETURNS SETOF step LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT s.* FROM step s WHERE s.step_id = p_step AND s.fence = p_fence AND s.state IN ('leased', 'running', 'reconciling') FOR NO KEY UPDATE;
  IF NOT FOUND THEN PERFORM refuse(p_worker, ARRAY[p_step], ARRAY[p_fence], '{}', p_attempted, 'none'); END IF;
END $$;

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

-- purpose: the input of a step, to the holder of another step of the same run: a further round starts from it
-- transition: none
-- fenced by: the asking step's fence
-- locks: none
CREATE FUNCTION input_of(p_step uuid, p_fence bigint, p_of uuid) RETURNS TABLE (input jsonb, input_blob bytea) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.input, o.input_blob FROM step s, step o WHERE s.step_id = p_step AND s.fence = p_fence AND o.step_id = p_of AND o.run_id = s.run_id
$$;

-- purpose: insert barriers with their slots and deadlines; those that expect nothing, or need more than there can be, are returned to be decided at once
-- transition: birth: barrier waiting
-- fenced by: the caller
-- locks: only new rows
CREATE FUNCTION insert_barriers(p_barriers jsonb) RETURNS arrival[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_empty arrival[];
BEGIN
  WITH p AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(p_barriers) AS x(tenant_id uuid, barrier_id uuid, run_id uuid, step_id uuid, fan_id uuid, node text, kind text, rule text, need int, share double precision, expected int, on_failed text, rest text, within_ms bigint, slots int)
  ), b AS (
    INSERT INTO barrier (tenant_id, barrier_id, run_id, step_id, fan_id, node, kind, rule, need, share, expected, on_failed, rest, slots, slots_left, state, deadline_at, created_at)
    SELECT p.tenant_id, p.barrier_id, p.run_id, p.step_id, p.fan_id, p.node, p.kind, p.rule, coalesce(p.need, needed(p.share, p.expected)), p.share, p.expected, coalesce(p.on_failed, 'fail'), coalesce(p.rest, 'cancel'), coalesce(p.slots, 0), coalesce(p.slots, 0), 'waiting',
           v_now + p.within_ms * interval '1 ms', v_now FROM p
  ), l AS (
    -- the capacity of each slot is exact: it is known from the indexes which child arrives where
    INSERT INTO barrier_slot (tenant_id, barrier_id, slot, remaining)
    SELECT p.tenant_id, p.barrier_id, slot_of(i), count(*) FROM p, generate_series(0, p.expected - 1) i WHERE coalesce(p.slots, 0) > 0 GROUP BY 1, 2, 3
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at, body)
    SELECT p.tenant_id, p.run_id, 'BarrierCreated', 0, v_now, jsonb_strip_nulls(jsonb_build_object('barrier', p.barrier_id, 'step', p.step_id, 'fan', p.fan_id, 'node', p.node, 'kind', p.kind, 'rule', p.rule, 'need', p.need, 'expected', p.expected,
      'on_failed', p.on_failed, 'rest', p.rest, 'slots', nullif(p.slots, 0), 'deadline_at', v_now + p.within_ms * interval '1 ms')) FROM p
  ), t AS (
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id) SELECT p.tenant_id, 'barrier_deadline', v_now + p.within_ms * interval '1 ms', p.run_id, p.barrier_id FROM p WHERE p.within_ms IS NOT NULL
  )
  SELECT array_agg(ROW(p.barrier_id, 0, 0, 0, 0)::arrival) INTO v_empty FROM p WHERE p.expected = 0 OR p.need > p.expected;
  RETURN coalesce(v_empty, '{}');
END $$;

-- purpose: insert steps and barriers that the planner worked out, offer those that are ready
-- transition: births: step pending|ready (succeeded|skipped when it is adopted from an earlier run), barrier waiting
-- fenced by: the caller
-- locks: only new rows
CREATE FUNCTION insert_plan(p_steps jsonb, p_barriers jsonb, p_priority int DEFAULT 0) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_ready uuid[];
  v_empty arrival[];
BEGIN
  WITH p AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(p_steps) AS x(tenant_id uuid, step_id uuid, run_id uuid, fan_id uuid, idx int, round int, kind text, state text, node text, queue text, priority int, max_attempts int,
      counts boolean, waits int, feeds uuid[], sources uuid[], workflow text, workflow_version int, answers text, input jsonb, input_blob text, timeout_ms bigint, lease_ms bigint, start_within_ms bigint, total_ms bigint, chooses uuid[], holds boolean, uncollected boolean, adopt uuid)
  ), s AS (
    INSERT INTO step (tenant_id, step_id, run_id, fan_id, idx, round, kind, state, node, queue, priority, max_attempts, counts, waits, feeds, sources, workflow, workflow_version, answers, input, input_blob, timeout_ms, lease_ms, start_within_ms, total_ms, expires_at, chooses, holds, uncollected, created_at, updated_at)
    SELECT p.tenant_id, p.step_id, p.run_id, p.fan_id, coalesce(p.idx, 0), coalesce(p.round, 0), coalesce(p.kind, 'step'), p.state, p.node, p.queue, greatest(-100, least(100, coalesce(p.priority, 0) + p_priority)), coalesce(p.max_attempts, 4), coalesce(p.counts, false),
           coalesce(p.waits, 0), p.feeds, p.sources, p.workflow, p.workflow_version, p.answers, p.input, decode(p.input_blob, 'hex'), p.timeout_ms, p.lease_ms,
           p.start_within_ms, p.total_ms, CASE p.state WHEN 'ready' THEN v_now + p.total_ms * interval '1 ms' END, p.chooses, coalesce(p.holds, false), coalesce(p.uncollected, false), v_now, v_now FROM p
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, body)
    SELECT p.tenant_id, p.run_id, p.step_id, CASE p.state WHEN 'ready' THEN 'StepReady' WHEN 'pending' THEN 'StepCreated' ELSE 'StepAdopted' END, 0, v_now,
      jsonb_strip_nulls(jsonb_build_object('node', p.node, 'kind', nullif(p.kind, 'step'), 'fan', p.fan_id, 'idx', nullif(p.idx, 0), 'round', nullif(p.round, 0), 'feeds', p.feeds, 'counts', nullif(p.counts, false), 'max_attempts', nullif(p.max_attempts, 4), 'adopted', p.adopt, 'state', CASE WHEN p.adopt IS NOT NULL THEN p.state END)) FROM p
  )
  SELECT array_agg(p.step_id) INTO v_ready FROM p WHERE p.state = 'ready';
  IF p_barriers IS NOT NULL AND jsonb_array_length(p_barriers) > 0 THEN v_empty := insert_barriers(p_barriers); END IF;
  PERFORM make_ready(v_ready);
  PERFORM spread(v_empty, '{}');
END $$;

-- purpose: a new version of an artifact, which nobody reads until it is flipped; the first one makes the artifact
-- transition: artifact_version born pending
-- fenced by: the caller; the row trigger looks at the fence again
-- locks: the artifact, while it is new
CREATE FUNCTION insert_version(p_tenant uuid, p_task uuid, p_run uuid, p_step uuid, p_fence bigint, p_actor text, p_name text, p_media_type text, p_made_from uuid[]) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_version uuid;
BEGIN
  IF EXISTS (SELECT FROM unnest(p_made_from) m WHERE NOT EXISTS (SELECT FROM artifact_version v WHERE v.version_id = m AND v.tenant_id = p_tenant AND v.number IS NOT NULL)) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 a version that it is made from is not in this tenant';
  END IF;
  INSERT INTO artifact (tenant_id, task_id, name, created_at) VALUES (p_tenant, p_task, p_name, v_now) ON CONFLICT (task_id, name, tenant_id) DO NOTHING;
  INSERT INTO artifact_version (tenant_id, artifact_id, task_id, run_id, step_id, fence, actor, state, media_type, made_from, created_at)
  SELECT p_tenant, a.artifact_id, p_task, p_run, p_step, p_fence, p_actor, 'pending', p_media_type, p_made_from, v_now FROM artifact a WHERE a.task_id = p_task AND a.name = p_name AND a.tenant_id = p_tenant
  RETURNING version_id INTO v_version;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body)
  VALUES (p_tenant, p_run, p_step, 'ArtifactBegun', 0, p_fence, v_now, p_actor, jsonb_build_object('artifact', v_version, 'name', p_name, 'media_type', p_media_type));
  RETURN v_version;
END $$;

-- purpose: whether a worker takes on work: active, and heard of within the time that limits allow a silent one
-- transition: none
-- fenced by: nothing: presence is information
-- locks: none
CREATE FUNCTION is_alive(w worker) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT w.state = 'active' AND w.seen_at > clock() - 30 * interval '1 s'
$$;

-- purpose: whether all that an operation costs is booked, and not given back
-- transition: none
-- fenced by: nothing: whoever acts on the answer holds the operation
-- locks: none
CREATE FUNCTION is_charged(o operation) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM jsonb_each_text(o.cost) c
    WHERE c.value::numeric <> coalesce((SELECT sum(x.amount) FROM spending x WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id AND x.unit = c.key), 0))
$$;

-- purpose: whether a version of an artifact is there, with this content, and is still the latest of its name
-- transition: none
-- fenced by: nothing: whoever acts on the answer holds the artifact's row
-- locks: none
CREATE FUNCTION is_current(p_tenant uuid, p_version uuid, p_sha256 bytea) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT EXISTS (SELECT FROM artifact_version v JOIN artifact r ON r.artifact_id = v.artifact_id AND r.tenant_id = v.tenant_id
    WHERE v.version_id = p_version AND v.tenant_id = p_tenant AND v.state = 'available' AND v.sha256 = p_sha256 AND v.number = r.latest)
$$;

-- purpose: whether a failed step holds its branch: its fan-out's joins hold for failed branches, and one of them still waits
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION is_held(s step) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.holds AND EXISTS (SELECT FROM barrier b WHERE b.fan_id = s.fan_id AND b.on_failed = 'hold' AND b.state = 'waiting')
$$;

-- purpose: whether any worker could lease a ready step now: its run goes on, nobody paused its queue, and a worker that was seen lately serves its queue and version
-- transition: none
-- fenced by: nothing; lease decides
-- locks: none
CREATE FUNCTION is_leasable(r ready) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT EXISTS (SELECT FROM step s, run u WHERE s.step_id = r.step_id AND s.tenant_id = r.tenant_id AND u.run_id = s.run_id AND u.tenant_id = s.tenant_id AND may_be_leased(s.state, s.kind, u.state, u.paused_at))
    AND NOT EXISTS (SELECT FROM queue_pause q WHERE q.queue = r.queue AND q.tenant_id = r.tenant_id)
    AND EXISTS (SELECT FROM worker w WHERE is_alive(w) AND r.queue = ANY (w.queues) AND (w.tenants IS NULL OR r.tenant_id = ANY (w.tenants)) AND r.workflow || '@' || r.workflow_version = ANY (w.workflows))
$$;

-- purpose: whether a waiting join counts something else than its branches say
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION is_miscounted(b barrier) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE WHEN b.slots > 0
    THEN (b.failed, b.skipped, b.slots_left::bigint) IS DISTINCT FROM (x.bad, x.skipped, x.slots_left) OR x.wrong
    ELSE (b.succeeded, b.failed, b.skipped) IS DISTINCT FROM (x.ok, x.bad, x.skipped) END
  FROM (SELECT coalesce(sum(s.ok), 0)::int AS ok, coalesce(sum(s.bad), 0)::int AS bad, coalesce(sum(s.skipped), 0)::int AS skipped, count(*) FILTER (WHERE s.remaining > 0) AS slots_left,
      coalesce(bool_or(s.remaining IS DISTINCT FROM (SELECT l.remaining FROM barrier_slot l WHERE l.barrier_id = b.barrier_id AND l.slot = s.slot)), false) AS wrong FROM slots_of(b) s) x
$$;

-- purpose: whether a branch still matters to its run: a decided join took it in or waits for it, at every level outwards
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION is_needed(p_fan uuid, p_idx int) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_fan uuid := p_fan;
  v_idx int := p_idx;
BEGIN
  WHILE v_fan IS NOT NULL LOOP
    IF EXISTS (SELECT FROM barrier b WHERE b.fan_id = v_fan AND b.step_id IS NOT NULL) AND NOT EXISTS (
      SELECT FROM barrier b WHERE b.fan_id = v_fan AND b.step_id IS NOT NULL AND (b.state = 'waiting' OR (b.state = 'released' AND EXISTS (
        SELECT FROM step x WHERE x.fan_id = v_fan AND x.idx = v_idx AND b.barrier_id = ANY (x.feeds) AND x.state = 'succeeded' AND x.replaced_by IS NULL AND b.barrier_id <> ALL (coalesce(x.late_for, '{}')))))) THEN
      RETURN false;
    END IF;
    SELECT s.fan_id, s.idx INTO v_fan, v_idx FROM step s WHERE s.step_id = v_fan;
  END LOOP;
  RETURN true;
END $$;

-- purpose: a job has done a part of its work: keep how far it is, and the lease; false: another worker has it
-- transition: none
-- fenced by: the job's fence
-- locks: the job
CREATE FUNCTION keep_maintenance(p_kind text, p_key text, p_tenant uuid, p_fence bigint, p_result jsonb, p_lease_ms int) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE maintenance_job j SET result = p_result, lease_until = clock() + p_lease_ms * interval '1 ms'
  WHERE j.kind = p_kind AND j.key = p_key AND j.tenant_id = p_tenant AND j.fence = p_fence AND j.state = 'running';
  RETURN FOUND;
END $$;

-- purpose: lease as many of the offered steps as are still ready; what does not come back is a duplicate or stale
-- transition: step ready -> leased, unknown -> reconciling, its fence rises by one; a new attempt
-- fenced by: nothing yet: it issues the fence
-- locks: steps by id (skipping locked ones), then runs, then tasks
CREATE FUNCTION lease(p_worker uuid, p_tenants uuid[], p_definitions text[], p_queues text[], p_steps uuid[], p_ttl_ms bigint, p_starting int) RETURNS SETOF leased
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_got uuid[];
  v_new_runs uuid[];
  v_suspects uuid[];
BEGIN
  SELECT array_agg(c.step_id ORDER BY array_position(p_steps, c.step_id)), array_agg(DISTINCT c.run_id) FILTER (WHERE c.run_state = 'created'), array_agg(c.step_id ORDER BY c.step_id) FILTER (WHERE c.losses > 1) INTO v_got, v_new_runs, v_suspects FROM (
    SELECT s.step_id, s.run_id, s.losses, (SELECT r.state FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id) AS run_state
    FROM step s
    WHERE s.step_id = ANY (p_steps) AND (s.state = 'ready' OR s.state = 'unknown' AND EXISTS (SELECT FROM ready y WHERE y.step_id = s.step_id)) AND (p_tenants IS NULL OR s.tenant_id = ANY (p_tenants))
      -- an offer is a message, and proves nothing: the worker gets only what it can run
      AND s.queue = ANY (p_queues) AND s.workflow || '@' || s.workflow_version = ANY (p_definitions)
      -- a scalar subquery: one look into an index that is nearly always empty, whatever the statistics say
      AND (SELECT q.since FROM queue_pause q WHERE q.queue = s.queue AND q.tenant_id = s.tenant_id) IS NULL
      AND (SELECT may_be_leased(s.state, s.kind, r.state, r.paused_at) FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id)
    ORDER BY s.step_id FOR NO KEY UPDATE OF s SKIP LOCKED) c;
  IF v_got IS NULL THEN RETURN; END IF;
  v_now := clock();
  IF v_suspects IS NOT NULL THEN
    -- what was lost twice may be what ends its workers: a worker runs one such at a time, so that its end tells which it was
    IF EXISTS (SELECT FROM attempt a WHERE a.ended_at IS NULL AND a.worker_id = p_worker AND (SELECT s.losses > 1 FROM step s WHERE s.step_id = a.step_id AND s.tenant_id = a.tenant_id)) THEN
      v_got := ARRAY(SELECT u FROM unnest(v_got) WITH ORDINALITY x(u, n) WHERE u <> ALL (v_suspects) ORDER BY n);
    ELSE
      v_got := ARRAY(SELECT u FROM unnest(v_got) WITH ORDINALITY x(u, n) WHERE u <> ALL (v_suspects[2:]) ORDER BY n);
    END IF;
    IF v_got = '{}' THEN RETURN; END IF;
  END IF;
  DELETE FROM ready r WHERE r.step_id = ANY (v_got);
  IF v_new_runs IS NOT NULL THEN PERFORM start_runs(v_new_runs); END IF;
  RETURN QUERY WITH u AS (
    UPDATE step s SET state = CASE s.state WHEN 'ready' THEN 'leased' ELSE 'reconciling' END, version = s.version + 1, fence = s.fence + 1, updated_at = v_now
    WHERE s.step_id = ANY (v_got)
    RETURNING s.*, old.updated_at AS was_ready_at, (array_position(v_got, s.step_id) <= p_starting OR s.losses > 0) AS begins
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor)
    SELECT u.tenant_id, u.run_id, u.step_id, CASE u.state WHEN 'leased' THEN 'StepLeased' ELSE 'StepProbed' END, u.version, u.fence, v_now, p_worker::text FROM u
  ), a AS (
    -- what begins at once is known to have begun: if its worker dies, that is a loss that counts. The rest was only handed out.
    INSERT INTO attempt (tenant_id, step_id, run_id, worker_id, fence, number, state, granted_at, started_at, deadline_at, lease_until, ready_at)
    SELECT u.tenant_id, u.step_id, u.run_id, p_worker, u.fence, u.attempts + 1, 'granted', v_now, CASE WHEN u.begins THEN v_now END,
           CASE WHEN u.begins AND u.state = 'leased' THEN least(v_now + u.timeout_ms * interval '1 ms', u.expires_at) END, v_now + greatest(u.lease_ms, p_ttl_ms) * interval '1 ms',
           CASE WHEN u.state = 'leased' THEN u.was_ready_at END FROM u
  )
  SELECT CASE WHEN u.state <> 'leased' THEN 'probe' WHEN u.kind = 'undo' THEN 'undo' ELSE 'granted' END, u.tenant_id, (SELECT r.task_id FROM run r WHERE r.run_id = u.run_id AND r.tenant_id = u.tenant_id), u.run_id, u.step_id, u.fence, u.workflow, u.workflow_version, u.node,
         u.fan_id, u.idx, u.round, u.attempts + 1, u.max_attempts::int, u.begins, CASE u.state WHEN 'leased' THEN least(u.timeout_ms, CASE WHEN u.expires_at IS NOT NULL THEN greatest(ceil(extract(epoch FROM u.expires_at - v_now) * 1000), 1) END)::bigint END, greatest(u.lease_ms, p_ttl_ms), u.input, u.input_blob, u.sources,
         CASE WHEN u.sources IS NOT NULL THEN (
           SELECT jsonb_agg((SELECT jsonb_build_object('b', x.body, 'h', encode(x.blob, 'hex')) FROM result x WHERE x.step_id = o.id AND x.tenant_id = u.tenant_id) ORDER BY o.n)
           FROM unnest(u.sources) WITH ORDINALITY o(id, n)) END
  FROM u;
END $$;

-- purpose: a step does not come to send again what it had sent and what was not found: nobody knows what became of it, and the ledger says so; tells of how many
-- transition: operation prepared -> unknown
-- fenced by: the operation alone: what may have been done is never taken for not sent
-- locks: the caller holds the step; its operations
CREATE FUNCTION leave_in_doubt(s step, p_actor text, p_why jsonb) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int := 0;
  o operation;
BEGIN
  FOR o IN SELECT x.* FROM operation x WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id AND may_still_land(x) ORDER BY x.operation_id FOR NO KEY UPDATE LOOP
    v_n := v_n + 1;
    UPDATE operation x SET state = 'unknown', version = x.version + 1, proof = -5, updated_at = v_now, unknown_since = v_now WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
    PERFORM note_operation(o, 'OperationUnknown', NULL, p_actor, p_why);
  END LOOP;
  RETURN v_n;
END $$;

-- purpose: let go what holds until someone reopens a failed step, once nobody waits for that any more: in the branches of a fan-out when no join over it holds, and (p_deep) in all that is inside them when none waits at all
-- transition: barrier waiting -> cancelled; what it holds, and what a failed step could have chosen, pending -> skipped
-- fenced by: the joins over the fan-out being decided
-- locks: barriers, the younger first, then the steps they hold
CREATE FUNCTION let_go(p_outer barrier, p_fans uuid[], p_deep boolean, OUT o_n int, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_over jsonb := jsonb_build_object('code', 'E-JOIN-23', 'what', 'the join was decided without it');
  v_failed jsonb := jsonb_build_object('code', 'E-JOIN-24', 'what', 'a step before it failed, and nobody waits for that to be reopened');
  v_own boolean;
  x record;
  v_target uuid;
  d record;
BEGIN
  o_n := 0;
  o_arrivals := '{}';
  o_after := '{}';
  o_skipped := '{}';
  FOR x IN
    SELECT b AS b, s.fan_id FROM step s, barrier b WHERE s.fan_id = ANY (p_fans) AND s.state = 'pending' AND b.step_id = s.step_id AND b.barrier_id <> p_outer.barrier_id
      AND b.state = 'waiting' AND b.on_failed = 'hold' AND b.failed > 0 AND (p_deep OR b.kind = 'after') ORDER BY b.barrier_id DESC FOR NO KEY UPDATE OF b
  LOOP
    -- a branch whose own step failed has failed; one that an inner join held was left over
    v_own := (x.b).kind = 'after' AND x.fan_id = p_outer.fan_id;
    PERFORM cancel_barriers(ARRAY[(x.b).barrier_id]);
    SELECT * INTO d FROM skip_step((x.b).step_id, CASE WHEN v_own THEN v_failed ELSE v_over END, v_own);
    o_n := o_n + 1;
    o_arrivals := o_arrivals || d.o_arrivals;
    o_after := o_after || d.o_after;
    o_skipped := o_skipped || d.o_skipped;
    IF (x.b).kind = 'gather' AND (x.b).succeeded + (x.b).failed + (x.b).skipped >= (x.b).expected THEN o_after := o_after || close_barrier(x.b); END IF;
  END LOOP;
  FOR x IN SELECT s.fan_id, s.chooses FROM step s WHERE s.fan_id = ANY (p_fans) AND s.state = 'failed' AND s.chooses IS NOT NULL ORDER BY s.step_id LOOP
    v_own := x.fan_id = p_outer.fan_id;
    FOREACH v_target IN ARRAY x.chooses LOOP
      SELECT * INTO d FROM skip_step(v_target, CASE WHEN v_own THEN v_failed ELSE v_over END, v_own);
      o_n := o_n + cardinality(d.o_skipped);
      o_arrivals := o_arrivals || d.o_arrivals;
      o_after := o_after || d.o_after;
      o_skipped := o_skipped || d.o_skipped;
    END LOOP;
  END LOOP;
END $$;

-- purpose: parked messages of a tenant, or (without a tenant) those that belong to none, newest first, without their bytes
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_dead_letters(p_tenant uuid, p_before uuid, p_limit int)
RETURNS TABLE (dead_letter_id uuid, topic text, partition int, "offset" bigint, bytes int, code text, reason text, at timestamptz, redriven_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.dead_letter_id, d.topic, d.partition, d."offset", octet_length(d.value), d.code, d.reason, d.at, d.redriven_at FROM dead_letter d
  WHERE d.tenant_id IS NOT DISTINCT FROM p_tenant AND (p_before IS NULL OR d.dead_letter_id < p_before) ORDER BY d.dead_letter_id DESC LIMIT p_limit
$$;

-- purpose: the deliveries of a tenant, of one webhook or of all, newest first
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_deliveries(p_tenant uuid, p_webhook uuid, p_state text, p_before uuid, p_limit int)
RETURNS TABLE (delivery_id uuid, webhook_id uuid, event_id uuid, type text, subject text, state text, tries int, status int, error text, created_at timestamptz, due_at timestamptz, ended_at timestamptz) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.delivery_id, d.webhook_id, d.event_id, d.type, d.subject, d.state, d.tries, d.status, d.error, d.created_at, d.due_at, d.ended_at FROM webhook_delivery d
  WHERE d.tenant_id = p_tenant AND (p_webhook IS NULL OR d.webhook_id = p_webhook) AND (p_state IS NULL OR d.state = p_state) AND (p_before IS NULL OR d.delivery_id < p_before) ORDER BY d.delivery_id DESC LIMIT p_limit
$$;

-- purpose: a tenant's keys, newest first; a secret is nowhere to be shown, only its hash was kept
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_keys(p_tenant uuid, p_before uuid, p_limit int) RETURNS TABLE (key_id uuid, name text, scopes text[], created_at timestamptz, expires_at timestamptz, revoked_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT k.key_id, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at FROM api_key k
  WHERE k.tenant_id = p_tenant AND (p_before IS NULL OR k.key_id < p_before) ORDER BY k.key_id DESC LIMIT p_limit
$$;

-- purpose: the people of a tenant by name, with their teams
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_people(p_tenant uuid, p_after text, p_limit int) RETURNS TABLE (person_id uuid, name text, display_name text, email text, issuer text, role text, rights text[], teams text[], created_at timestamptz, disabled_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT p.person_id, p.name, p.display_name, p.email, p.issuer, p.role, p.rights, ARRAY(SELECT m.team FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id ORDER BY m.team), p.created_at, p.disabled_at
  FROM person p WHERE p.tenant_id = p_tenant AND (p_after IS NULL OR p.name > p_after) ORDER BY p.name LIMIT p_limit
$$;

-- purpose: sessions of a person, or of all people of a tenant, newest first, without what opens them
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_sessions(p_tenant uuid, p_person uuid, p_before uuid, p_limit int) RETURNS TABLE (session_id uuid, name text, kind text, created_at timestamptz, used_at timestamptz, expires_at timestamptz, revoked_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.session_id, p.name, s.kind, s.created_at, s.used_at, s.expires_at, s.revoked_at FROM session s JOIN person p ON p.person_id = s.person_id AND p.tenant_id = s.tenant_id
  WHERE s.tenant_id = p_tenant AND (p_person IS NULL OR s.person_id = p_person) AND (p_before IS NULL OR s.session_id < p_before) ORDER BY s.session_id DESC LIMIT p_limit
$$;

-- purpose: the keys by which a tenant's Kafka commands are verified
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_signing_keys(p_tenant uuid, p_after text, p_limit int) RETURNS TABLE (key_id text, public_key bytea, scopes text[], created_at timestamptz, revoked_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT k.key_id, k.public_key, k.scopes, k.created_at, k.revoked_at FROM signing_key k WHERE k.tenant_id = p_tenant AND (p_after IS NULL OR k.key_id > p_after) ORDER BY k.key_id LIMIT p_limit
$$;

-- purpose: the teams of a tenant with their members; a team is there while somebody is in it
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_teams(p_tenant uuid, p_after text, p_limit int) RETURNS TABLE (team text, members text[]) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT m.team, array_agg(p.name ORDER BY p.name) FROM team_member m JOIN person p ON p.person_id = m.person_id AND p.tenant_id = m.tenant_id
  WHERE m.tenant_id = p_tenant AND (p_after IS NULL OR m.team > p_after) GROUP BY m.team ORDER BY m.team LIMIT p_limit
$$;

-- purpose: the webhooks of a tenant, newest first, with what waits and what was given up
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION list_webhooks(p_tenant uuid, p_before uuid, p_limit int) RETURNS TABLE (webhook_id uuid, url text, events text[], state text, created_by text, created_at timestamptz, changed_at timestamptz, waiting bigint, failed bigint)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT w.webhook_id, w.url, w.events, w.state, w.created_by, w.created_at, w.changed_at,
    (SELECT count(*) FROM webhook_delivery d WHERE d.webhook_id = w.webhook_id AND d.tenant_id = w.tenant_id AND d.state = 'due'),
    (SELECT count(*) FROM webhook_delivery d WHERE d.webhook_id = w.webhook_id AND d.tenant_id = w.tenant_id AND d.state = 'failed')
  FROM webhook w WHERE w.tenant_id = p_tenant AND (p_before IS NULL OR w.webhook_id < p_before) ORDER BY w.webhook_id DESC LIMIT p_limit
$$;

-- purpose: one at a time decides about the content of this name in a tenant: that a version names it, or that it may go
-- transition: none
-- fenced by: nothing
-- locks: an advisory one, of the tenant and the hash
CREATE FUNCTION lock_object(p_tenant uuid, p_sha256 bytea) RETURNS void LANGUAGE sql VOLATILE SET search_path = stanchion, pg_temp AS $$
  SELECT pg_advisory_xact_lock(hashtextextended('object:' || p_tenant || ':' || encode(p_sha256, 'hex'), 0))
$$;

-- purpose: partitions of events for this month and the next ones, made before the first event of them is written
-- transition: none
-- fenced by: nothing: what exists is left alone
-- locks: the event table's list of partitions, for 2 s at most; who comes too early tries again later
CREATE FUNCTION make_partitions(p_months int) RETURNS SETOF text LANGUAGE plpgsql SET search_path = stanchion, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  v_from timestamptz;
  v_to timestamptz;
  v_name text;
BEGIN
  FOR n IN 0 .. p_months LOOP
    v_from := (date_trunc('month', clock() AT TIME ZONE 'UTC') + n * interval '1 month') AT TIME ZONE 'UTC';
    v_to := (v_from AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    v_name := to_char(v_from AT TIME ZONE 'UTC', '"event_"YYYY_MM');
    CONTINUE WHEN to_regclass('stanchion.' || v_name) IS NOT NULL;
    -- what was written before its month had a partition stands in the default one, and the month stays there
    CONTINUE WHEN EXISTS (SELECT FROM event e WHERE e.at >= v_from AND e.at < v_to);
    EXECUTE format('CREATE TABLE %I PARTITION OF event FOR VALUES FROM (%L) TO (%L)', v_name, v_from, v_to);
    PERFORM guard_partition(v_name);
    RETURN NEXT v_name;
  END LOOP;
END $$;

-- purpose: put steps that just became ready, or are due to be probed, where workers find them: a row in ready, an offer while the queue's window has room; their deadlines begin
-- transition: none (the caller made them ready)
-- fenced by: the caller
-- locks: none beyond the rows it inserts
CREATE FUNCTION make_ready(p_steps uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  IF p_steps IS NULL OR p_steps = '{}' THEN RETURN; END IF;
  WITH s AS MATERIALIZED (
    SELECT s.step_id, s.tenant_id, s.run_id, s.workflow, s.workflow_version, s.node, s.queue, s.priority, s.fence, CASE WHEN s.state = 'ready' THEN s.start_within_ms END AS start_within_ms, CASE WHEN s.state = 'ready' THEN s.expires_at END AS expires_at
    FROM step s WHERE s.step_id = ANY (p_steps) AND s.state IN ('ready', 'unknown')
  ), q AS MATERIALIZED (
    -- one in 64 looks at the window itself; the others only at whether a backlog waits
    SELECT x.queue, x.tenant_id, queue_has_room(x.queue, x.tenant_id, x.sample) AS room FROM (SELECT s.queue, s.tenant_id, bool_or(get_byte(uuid_send(s.step_id), 14) % 64 = 0) AS sample FROM s GROUP BY s.queue, s.tenant_id) x
  ), r AS (
    INSERT INTO ready (step_id, tenant_id, workflow, workflow_version, node, queue, priority, offers, since, offered_at)
    SELECT s.step_id, s.tenant_id, s.workflow, s.workflow_version, s.node, s.queue, s.priority, CASE WHEN q.room THEN 1 ELSE 0 END, v_now, CASE WHEN q.room THEN v_now END
    FROM s JOIN q ON q.queue = s.queue AND q.tenant_id = s.tenant_id
  ), t AS (
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id)
    SELECT s.tenant_id, 'start_deadline', v_now + s.start_within_ms * interval '1 ms', s.run_id, s.step_id FROM s WHERE s.start_within_ms IS NOT NULL AND NOT has_begun(s.step_id) AND NOT EXISTS (SELECT FROM timer x WHERE x.target_id = s.step_id AND x.kind = 'start_deadline')
    UNION ALL
    -- it may have gone straight to a worker before, without a timer
    SELECT s.tenant_id, 'step_deadline', s.expires_at, s.run_id, s.step_id FROM s WHERE s.expires_at IS NOT NULL AND NOT EXISTS (SELECT FROM timer x WHERE x.target_id = s.step_id AND x.kind = 'step_deadline')
  )
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  SELECT outbox_partition_of((array_agg(x.step_id))[1]), x.tenant_id, 'stanchion.workers.' || x.queue || '.commands.v1', (array_agg(x.step_id))[1]::text, 'ExecuteSteps', (array_agg(x.run_id))[1]::text,
         jsonb_build_object('workflow', x.workflow, 'version', x.workflow_version, 'node', x.node, 'steps', jsonb_agg(x.step_id))::text
  FROM (SELECT y.*, y.n / max(CASE WHEN y.n = 0 THEN steps_in_offer(y.workflow, y.workflow_version, y.node, y.of) END) OVER (PARTITION BY y.tenant_id, y.queue, y.workflow, y.workflow_version, y.node) AS chunk FROM (
    SELECT s.*, row_number() OVER w - 1 AS n, count(*) OVER (PARTITION BY s.tenant_id, s.queue, s.workflow, s.workflow_version, s.node) AS of
    FROM s JOIN q ON q.queue = s.queue AND q.tenant_id = s.tenant_id WHERE q.room WINDOW w AS (PARTITION BY s.tenant_id, s.queue, s.workflow, s.workflow_version, s.node ORDER BY s.priority DESC, s.step_id)) y) x
  GROUP BY x.tenant_id, x.queue, x.workflow, x.workflow_version, x.node, x.chunk;
END $$;

-- purpose: somebody says of a group of errors that it is known, who looks after it, and where more stands; NULL leaves a field as it is, an empty text clears it. False: there is none
-- transition: none
-- fenced by: nothing
-- locks: the group; the audit chain last
CREATE FUNCTION mark_error(p_tenant uuid, p_group uuid, p_known boolean, p_note text, p_link text, p_assigned_to text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE error_group g SET known = coalesce(p_known, g.known), note = nullif(coalesce(p_note, g.note), ''), link = nullif(coalesce(p_link, g.link), ''), assigned_to = nullif(coalesce(p_assigned_to, g.assigned_to), ''), marked_by = p_actor, marked_at = clock()
  WHERE g.group_id = p_group AND g.tenant_id = p_tenant;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'error.mark', p_group::text, jsonb_build_object('known', p_known, 'note', p_note, 'link', p_link, 'assigned_to', p_assigned_to));
  RETURN true;
END $$;

-- purpose: what settled after its join had opened is kept, and marked late for that join: its Results never change
-- transition: none
-- fenced by: the caller settled these steps, and holds the barrier
-- locks: the caller holds the steps
CREATE FUNCTION mark_late(b barrier, p_done uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_late uuid[];
BEGIN
  WITH u AS (
    UPDATE step s SET late_for = s.late_for || b.barrier_id WHERE s.step_id = ANY (p_done) AND b.barrier_id = ANY (s.feeds) AND b.barrier_id <> ALL (coalesce(s.late_for, '{}')) RETURNING s.step_id
  ) SELECT array_agg(u.step_id) INTO v_late FROM u;
  UPDATE result r SET late = true WHERE r.step_id = ANY (v_late) AND NOT r.late;
END $$;

-- purpose: whether a step may be leased while its run is in such a state: a probe, and what undoes, also while the run winds down, and what undoes after it ended
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION may_be_leased(p_state text, p_kind text, p_run_state text, p_paused timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_run_state IN ('created', 'running') AND (p_paused IS NULL OR p_state = 'unknown') OR p_run_state = 'cancelling' AND p_state = 'unknown' OR p_kind = 'undo'
$$;

-- purpose: whether something was sent for an operation that is prepared again, and may be done yet: it was not found, and its key held a second one back
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION may_still_land(o operation) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.state = 'prepared' AND o.sends > 0 AND o.settled_by IS NULL AND NOT coalesce(o.lands_until < clock(), false)
$$;

-- purpose: joins of live runs whose counts are not those of their branches, among the next ones that have waited for so long; one snapshot sees both, so it takes no locks
-- transition: none
-- fenced by: nothing: recount_barrier looks again, under locks
-- locks: none
CREATE FUNCTION miscounted_barriers(p_after uuid, p_older interval, p_limit int, OUT o_last uuid, OUT o_looked int, OUT o_wrong uuid[]) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH w AS MATERIALIZED (
    SELECT b.barrier_id, b.kind, b.state, b.run_id, b.created_at FROM barrier b WHERE b.barrier_id > p_after ORDER BY b.barrier_id LIMIT p_limit
  ), k AS (
    SELECT b AS b FROM w JOIN barrier b ON b.barrier_id = w.barrier_id
    WHERE w.kind = 'gather' AND w.state = 'waiting' AND w.created_at < clock() - p_older AND EXISTS (SELECT FROM run r WHERE r.run_id = w.run_id AND r.state IN ('created', 'running'))
  )
  SELECT (SELECT w.barrier_id FROM w ORDER BY w.barrier_id DESC LIMIT 1), (SELECT count(*)::int FROM k),
    ARRAY(SELECT (k.b).barrier_id FROM k WHERE is_miscounted(k.b))
$$;

-- purpose: what should be due for a run and is not: retries, probes, expansions, deadlines of steps, approvals, joins and the task
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION missing_timers(p_run uuid) RETURNS TABLE (tenant_id uuid, kind text, target_id uuid, due_at timestamptz, version bigint) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH w AS (
    SELECT s.tenant_id, 'retry' AS kind, s.step_id AS target_id, coalesce((SELECT e.at + (e.body->>'delay_ms')::bigint * interval '1 ms' FROM event e
      WHERE e.run_id = p_run AND e.step_id = s.step_id AND e.kind = 'StepRetryScheduled' AND e.version = s.version LIMIT 1), clock()) AS due_at, s.version
    FROM step s WHERE s.run_id = p_run AND s.state = 'retry_wait'
    UNION ALL
    SELECT s.tenant_id, 'probe', s.step_id, clock(), s.version FROM step s WHERE s.run_id = p_run AND s.state = 'unknown' AND NOT EXISTS (SELECT FROM ready y WHERE y.step_id = s.step_id)
      AND EXISTS (SELECT FROM operation o WHERE o.step_id = s.step_id AND o.state = 'unknown' AND o.unknown_since > clock() - interval '1 day')
    UNION ALL
    -- branches are inserted in order of their index, so the highest tells how far it came; without a join it has not begun
    SELECT s.tenant_id, 'expand', s.step_id, clock(), x.next FROM step s,
      LATERAL (SELECT coalesce((SELECT c.idx + 1 FROM step c WHERE c.fan_id = s.step_id ORDER BY c.idx DESC LIMIT 1), 0)::bigint AS next, (SELECT max(b.expected) FROM barrier b WHERE b.fan_id = s.step_id AND b.kind = 'gather') AS total) x
    WHERE s.run_id = p_run AND s.kind = 'fan' AND s.state = 'waiting' AND (x.total IS NULL OR x.next < x.total)
    UNION ALL
    SELECT s.tenant_id, 'start_deadline', s.step_id, s.updated_at + s.start_within_ms * interval '1 ms', NULL FROM step s WHERE s.run_id = p_run AND s.state = 'ready' AND s.fence = 0 AND s.start_within_ms IS NOT NULL
    UNION ALL
    SELECT s.tenant_id, 'step_deadline', s.step_id, s.expires_at, NULL FROM step s WHERE s.run_id = p_run AND s.state IN ('ready', 'retry_wait') AND s.expires_at IS NOT NULL
    UNION ALL
    SELECT s.tenant_id, 'approval', s.step_id, a.expires_at, NULL FROM step s JOIN approval a ON a.step_id = s.step_id AND a.fence = s.fence WHERE s.run_id = p_run AND s.kind = 'step' AND s.state = 'waiting'
    UNION ALL
    SELECT b.tenant_id, 'barrier_deadline', b.barrier_id, b.deadline_at, NULL FROM barrier b WHERE b.run_id = p_run AND b.state = 'waiting' AND b.deadline_at IS NOT NULL
    UNION ALL
    SELECT t.tenant_id, 'task_deadline', t.task_id, t.deadline_at, NULL FROM run r, task t WHERE r.run_id = p_run AND r.state IN ('created', 'running') AND t.task_id = r.task_id AND t.run_id = p_run AND t.ended_at IS NULL AND t.deadline_at IS NOT NULL
  )
  SELECT w.* FROM w WHERE NOT EXISTS (SELECT FROM timer t WHERE t.target_id = w.target_id AND t.kind = w.kind AND (w.kind NOT IN ('retry', 'probe') OR t.version = w.version))
$$;

-- purpose: how many arrivals a share of so many branches is, rounded up
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION needed(p_share double precision, p_of int) RETURNS int LANGUAGE sql IMMUTABLE SET search_path = stanchion, pg_temp AS $$ SELECT ceil(round((p_share * p_of)::numeric, 9))::int $$;

-- purpose: the next failures behind the cursor, below the oldest running transaction, so that none is skipped; with them where the cursor stands
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION next_failures(p_limit int) RETURNS TABLE (from_xid numeric, from_id bigint, xid numeric, event_id bigint, tenant_id uuid, run_id uuid, step_id uuid, fan_id uuid, workflow text, version int, node text, worker_id uuid, final boolean, at timestamptz, error jsonb)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT c.xid::text::numeric, c.event_id, e.xid::text::numeric, e.event_id, e.tenant_id, e.run_id, e.step_id, s.fan_id, s.workflow, s.workflow_version, s.node, a.worker_id, e.kind = 'StepFailed', e.at,
    CASE WHEN jsonb_typeof(e.body->'error') = 'object' THEN e.body->'error' ELSE e.body - 'step' END
  FROM error_cursor c CROSS JOIN LATERAL (
    SELECT v.* FROM event v WHERE v.kind IN ('StepFailed', 'StepRetryScheduled') AND (v.xid, v.event_id) > (c.xid, c.event_id) AND v.xid < event_xid(pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY v.xid, v.event_id LIMIT p_limit) e
  LEFT JOIN step s ON s.step_id = e.step_id AND s.tenant_id = e.tenant_id
  LEFT JOIN attempt a ON a.step_id = e.step_id AND a.fence = e.fence AND a.tenant_id = e.tenant_id
  ORDER BY e.xid, e.event_id
$$;

-- purpose: the next parked messages that a bulk redrive is about, oldest first, with their bytes: those that were parked before it was asked for, so that one which comes back is not sent for ever
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION next_redrives(p_key text, p_tenant uuid, p_after uuid, p_limit int)
RETURNS TABLE (dead_letter_id uuid, topic text, partition int, "offset" bigint, key bytea, value bytea, headers jsonb, code text, reason text, at timestamptz, redriven_at timestamptz)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT d.dead_letter_id, d.topic, d.partition, d."offset", d.key, d.value, d.headers, d.code, d.reason, d.at, d.redriven_at
  FROM maintenance_job j JOIN dead_letter d ON d.tenant_id IS NOT DISTINCT FROM nullif(p_tenant, '00000000-0000-0000-0000-000000000000')
  WHERE j.kind = 'redrive' AND j.key = p_key AND j.tenant_id = p_tenant AND d.dead_letter_id > p_after AND d.redriven_at IS NULL
    AND d.at <= least(j.created_at, (j.request->>'before')::timestamptz) AND (j.request->>'code' IS NULL OR d.code = j.request->>'code')
    AND (j.request->>'topic' IS NULL OR d.topic = j.request->>'topic' OR d.topic = 'outbox:' || (j.request->>'topic'))
  ORDER BY d.dead_letter_id LIMIT p_limit
$$;

-- purpose: the tenant behind this one, in the order of their ids: whose objects to look at next
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION next_tenant(p_after uuid) RETURNS uuid LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT t.tenant_id FROM tenant t WHERE t.tenant_id > p_after ORDER BY t.tenant_id LIMIT 1
$$;

-- purpose: why a person has no say about an approval that is open: what voter_fault says, or said (they have decided, or passed their vote on); NULL: it waits for them
-- transition: none
-- fenced by: nothing: a vote looks again, under the lock
-- locks: none
CREATE FUNCTION no_say(a approval, p_person uuid) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE WHEN EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.person_id = p_person AND v.vote IN ('approve', 'reject', 'delegate')) THEN 'said'
    ELSE voter_fault(a, p_person) END
$$;

-- purpose: which node each of these steps is
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION nodes_of(p_steps uuid[]) RETURNS TABLE (step_id uuid, node text) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.step_id, s.node FROM step s WHERE s.step_id = ANY (p_steps)
$$;

-- purpose: an entry of the audit log for an act of somebody; called last in its transaction, since it holds the lane's lock until the end
-- transition: none
-- fenced by: the chain of hashes
-- locks: nothing else; the audit chain last
CREATE FUNCTION note_act(p_tenant uuid, p_actor text, p_action text, p_target text, p_detail jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, p_action, p_target, jsonb_strip_nulls(p_detail))
$$;

-- purpose: the event of what happened to an approval
-- transition: none
-- fenced by: the caller
-- locks: none
CREATE FUNCTION note_approval(a approval, p_kind text, p_actor text, p_body jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body)
  VALUES (a.tenant_id, a.run_id, a.step_id, p_kind, a.version, a.updated_at, p_actor, jsonb_build_object('approval', a.approval_id) || coalesce(jsonb_strip_nulls(p_body), '{}'))
$$;

-- purpose: the event of a booking, or of one that was refused
-- transition: none
-- fenced by: the caller; a fence that is given is checked by the event table
-- locks: none
CREATE FUNCTION note_budget(p_tenant uuid, p_run uuid, p_step uuid, p_kind text, p_fence bigint, p_body jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO event (tenant_id, run_id, step_id, kind, fence, body) VALUES (p_tenant, p_run, p_step, p_kind, p_fence, jsonb_strip_nulls(p_body))
$$;

-- purpose: an operation that undoes another is confirmed: the other is compensated, in the same transaction
-- transition: operation confirmed -> compensated
-- fenced by: the confirmation of what undoes it
-- locks: the operation that is undone (the caller holds the one that undoes it)
CREATE FUNCTION note_compensated(c operation) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  o operation;
BEGIN
  IF c.compensates IS NULL OR c.state <> 'confirmed' THEN RETURN; END IF;
  UPDATE operation x SET state = 'compensated', version = x.version + 1, proof = -4, updated_at = clock() WHERE x.operation_id = c.compensates AND x.tenant_id = c.tenant_id AND x.state = 'confirmed' RETURNING * INTO o;
  IF FOUND THEN PERFORM note_operation(o, 'OperationCompensated', NULL, 'engine', jsonb_build_object('by', c.operation_id)); END IF;
END $$;

-- purpose: how long steps of a node take, smoothed; sizes what is leased ahead and how many steps an offer names
-- transition: none
-- fenced by: nothing: losing it costs nothing
-- locks: the nodes' rows in key order
CREATE FUNCTION note_durations(p_workflows text[], p_versions int[], p_nodes text[], p_means_ms bigint[], p_samples bigint[]) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO node_stat AS n (workflow, version, node, mean_ms, samples)
  SELECT x.w, x.v, x.n, x.m, x.s FROM unnest(p_workflows, p_versions, p_nodes, p_means_ms, p_samples) x(w, v, n, m, s) ORDER BY 1, 2, 3
  ON CONFLICT (workflow, version, node) DO UPDATE SET mean_ms = (n.mean_ms * 3 + excluded.mean_ms) / 4, samples = n.samples + excluded.samples, updated_at = clock()
$$;

-- purpose: put failures into their groups and move the cursor behind them; false: somebody else was faster, nothing is counted
-- transition: none
-- fenced by: the cursor as it was read: each failure is counted once
-- locks: the cursor, then groups by id, then members by id
CREATE FUNCTION note_failures(p_from_xid numeric, p_from_id bigint, p_to_xid numeric, p_to_id bigint, p_rows jsonb) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE error_cursor c SET xid = p_to_xid::text::xid8, event_id = p_to_id WHERE c.xid = p_from_xid::text::xid8 AND c.event_id = p_from_id;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO error_group AS g (group_id, tenant_id, workflow, node, code, type, place, message, versions, count, failed, first_at, last_at, example, example_step_id)
  SELECT x.group_id, x.tenant_id, min(x.workflow), min(x.node), min(x.code), min(x.type), min(x.place), min(x.message), array_agg(DISTINCT x.version ORDER BY x.version), count(*), count(*) FILTER (WHERE x.final), min(x.at), max(x.at),
    (array_agg(x.error ORDER BY x.at DESC))[1], (array_agg(x.step_id ORDER BY x.at DESC))[1]
  FROM jsonb_to_recordset(p_rows) x(group_id uuid, tenant_id uuid, workflow text, node text, code text, type text, place text, message text, version int, final boolean, at timestamptz, error jsonb, step_id uuid)
  GROUP BY x.group_id, x.tenant_id ORDER BY x.group_id, x.tenant_id
  ON CONFLICT (group_id, tenant_id) DO UPDATE SET count = g.count + EXCLUDED.count, failed = g.failed + EXCLUDED.failed, first_at = least(g.first_at, EXCLUDED.first_at), last_at = greatest(g.last_at, EXCLUDED.last_at),
    example = EXCLUDED.example, example_step_id = EXCLUDED.example_step_id, versions = ARRAY(SELECT DISTINCT v FROM unnest(g.versions || EXCLUDED.versions) v ORDER BY v);
  INSERT INTO error_member AS m (run_id, step_id, tenant_id, group_id, fan_id, worker_id, failures, first_at, last_at)
  SELECT x.run_id, x.step_id, x.tenant_id, (array_agg(x.group_id ORDER BY x.at DESC, x.number DESC))[1], min(x.fan_id::text)::uuid, (array_agg(x.worker_id ORDER BY x.at DESC, x.number DESC))[1], count(*), min(x.at), max(x.at)
  FROM jsonb_to_recordset(p_rows) x(run_id uuid, step_id uuid, tenant_id uuid, group_id uuid, fan_id uuid, worker_id uuid, at timestamptz, number int)
  GROUP BY x.run_id, x.step_id, x.tenant_id ORDER BY x.run_id, x.step_id
  ON CONFLICT (run_id, step_id, tenant_id) DO UPDATE SET group_id = EXCLUDED.group_id, worker_id = EXCLUDED.worker_id, failures = m.failures + EXCLUDED.failures, last_at = EXCLUDED.last_at;
  RETURN true;
END $$;

-- purpose: keep what a look at the broker found, or why there was nothing to find: where each group stands, what it reads of each partition, and since when it has not come on; what did not change is not written
-- transition: none
-- fenced by: nothing: of two looks that overlap the later one to write stands
-- locks: the one row, then groups by name, partitions by topic and number
CREATE FUNCTION note_lag(p_groups jsonb, p_places jsonb, p_fault jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  UPDATE lag_look x SET fault = p_fault, failing_since = CASE WHEN p_fault IS NOT NULL THEN coalesce(x.failing_since, v_now) END, answered_at = CASE WHEN p_fault IS NULL THEN v_now ELSE x.answered_at END;
  IF p_fault IS NOT NULL THEN RETURN; END IF;
  INSERT INTO consumer_group AS g (name, state, members, since, seen_at)
  SELECT n.name, n.state, n.members, v_now, v_now FROM jsonb_to_recordset(p_groups) AS n(name text, state text, members text[]) ORDER BY n.name
  ON CONFLICT (name) DO UPDATE SET state = excluded.state, members = excluded.members, seen_at = v_now,
    since = CASE WHEN excluded.state = g.state THEN g.since ELSE v_now END,
    -- one is under way, or others are in the group than before: one that nobody saw has been
    rebalances = CASE WHEN excluded.state = 'rebalancing' AND g.state <> 'rebalancing' OR excluded.state = 'steady' AND g.state <> 'rebalancing' AND excluded.members <> g.members THEN (array_prepend(v_now, g.rebalances))[1:20] ELSE g.rebalances END;
  DELETE FROM consumer_group g WHERE g.seen_at < v_now;
  INSERT INTO consumer_lag AS p (group_name, topic, partition, end_offset, committed, owner, moved_at, seen_at)
  SELECT n."group", n.topic, n.partition, n."end", n.committed, n.owner, v_now, v_now
  FROM jsonb_to_recordset(p_places) AS n("group" text, topic text, partition int, "end" bigint, committed bigint, owner text) ORDER BY n.topic, n."group", n.partition
  ON CONFLICT (topic, group_name, partition) DO UPDATE SET end_offset = excluded.end_offset, committed = excluded.committed, owner = excluded.owner, seen_at = v_now,
    -- who had nothing before it until now has not been standing
    moved_at = CASE WHEN excluded.committed IS DISTINCT FROM p.committed OR coalesce(p.committed, 0) >= p.end_offset OR coalesce(excluded.committed, 0) >= excluded.end_offset THEN v_now ELSE p.moved_at END,
    -- half of what it was and half of what it is: a broker that came back empty gives no rate
    rate_in = CASE WHEN v_now > p.seen_at THEN (p.rate_in + greatest(excluded.end_offset - p.end_offset, 0) / extract(epoch FROM v_now - p.seen_at)) / 2 ELSE p.rate_in END,
    rate_out = CASE WHEN v_now > p.seen_at THEN (p.rate_out + greatest(excluded.committed - coalesce(p.committed, 0), 0) / extract(epoch FROM v_now - p.seen_at)) / 2 ELSE p.rate_out END
  WHERE (excluded.end_offset, excluded.committed, excluded.owner) IS DISTINCT FROM (p.end_offset, p.committed, p.owner) OR p.rate_in > 0.01 OR p.rate_out > 0.01;
  -- what is there is what the last look found
  DELETE FROM consumer_lag p WHERE NOT EXISTS (SELECT FROM jsonb_to_recordset(p_places) AS n("group" text, topic text, partition int) WHERE n.topic = p.topic AND n."group" = p.group_name AND n.partition = p.partition);
END $$;

-- purpose: the event of what happened to an operation
-- transition: none
-- fenced by: the caller; a fence that is given is checked by the event table
-- locks: none
CREATE FUNCTION note_operation(o operation, p_kind text, p_fence bigint, p_actor text, p_body jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at, actor, body)
  VALUES (o.tenant_id, o.run_id, o.step_id, p_kind, o.version, p_fence, o.updated_at, p_actor, jsonb_build_object('operation', o.operation_id) || coalesce(jsonb_strip_nulls(p_body), '{}'))
$$;

-- purpose: parked messages that a bulk redrive has sent; those that the relay had parked go back into the outbox here. NULL: another worker has the job
-- transition: none
-- fenced by: the job's fence, and redriven_at: each once
-- locks: the job, then the letters by id
CREATE FUNCTION note_redriven(p_key text, p_tenant uuid, p_fence bigint, p_ids uuid[]) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_sent uuid[];
BEGIN
  PERFORM FROM maintenance_job j WHERE j.kind = 'redrive' AND j.key = p_key AND j.tenant_id = p_tenant AND j.fence = p_fence AND j.state = 'running' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM dead_letter d WHERE d.dead_letter_id = ANY (p_ids) ORDER BY d.dead_letter_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE dead_letter d SET redriven_at = clock() WHERE d.dead_letter_id = ANY (p_ids) AND d.redriven_at IS NULL RETURNING d.dead_letter_id
  ) SELECT coalesce(array_agg(u.dead_letter_id), '{}') INTO v_sent FROM u;
  PERFORM put_back(v_sent, p_tenant);
  RETURN cardinality(v_sent);
END $$;

-- purpose: content has left the store; who began to upload the same before this moment has to put it again
-- transition: none
-- fenced by: the removal having begun
-- locks: the removal
CREATE FUNCTION note_removed(p_tenant uuid, p_sha256 bytea) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE object_removal r SET removed_at = clock() WHERE r.sha256 = p_sha256 AND r.tenant_id = p_tenant AND r.begun_at IS NOT NULL AND r.removed_at IS NULL
$$;

-- purpose: the event of a new question, with all that it binds, and its webhooks
-- transition: none
-- fenced by: the caller
-- locks: only new rows
CREATE FUNCTION note_request(a approval) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT note_approval(a, 'ApprovalRequested', a.edited_by, jsonb_build_object('hash', encode(a.payload_hash, 'hex'), 'operation', a.operation_kind, 'key', a.operation_key, 'resource', a.resource_id,
    'people', a.people, 'teams', a.teams, 'needs', a.needs, 'four_eyes', a.four_eyes, 'expires_at', a.expires_at, 'replaces', a.replaces)),
    notify_approval(a, 'approval.requested')
$$;

-- purpose: the audit entries of a batch of submissions, one for each tenant and submitter, in one of several lanes: submitters don't wait for each other's commits
-- transition: none
-- fenced by: the chain of hashes of the lane
-- locks: nothing else, tenants in order; the audit chain last
CREATE FUNCTION note_submissions(p_tasks uuid[]) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO audit (tenant_id, lane, actor, action, target, detail)
  SELECT t.tenant_id, pg_backend_pid() % 8 + 1, t.submitted_by, 'task.submit', CASE count(*) WHEN 1 THEN min(t.task_id::text) ELSE count(*) || ' tasks' END,
    jsonb_build_object('via', t.submitted_via, 'tasks', jsonb_agg(t.task_id ORDER BY t.task_id), 'workflows', jsonb_agg(DISTINCT t.workflow || '@' || t.workflow_version))
  FROM task t WHERE t.task_id = ANY (p_tasks) GROUP BY t.tenant_id, t.submitted_by, t.submitted_via ORDER BY t.tenant_id
$$;

-- purpose: tell webhooks of an approval: whom it concerns and how it stands, not what is asked
-- transition: births: webhook deliveries
-- fenced by: the caller
-- locks: only new rows
CREATE FUNCTION notify_approval(a approval, p_event text) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT notify_webhooks(a.tenant_id, p_event, a.approval_id::text, jsonb_strip_nulls(jsonb_build_object('approval_id', a.approval_id, 'task_id', a.task_id, 'run_id', a.run_id, 'step_id', a.step_id, 'node', a.node,
    'state', a.state, 'operation', a.operation_kind, 'people', a.people, 'teams', a.teams, 'needs', a.needs, 'expires_at', a.expires_at, 'decided_by', a.decided_by)))
$$;

-- purpose: something happened that webhooks may want to hear of: one delivery for each that does, in the transaction of its cause
-- transition: births: webhook deliveries, due (held when their webhook is paused or has failed)
-- fenced by: the unique key (webhook, event)
-- locks: only new rows
CREATE FUNCTION notify_webhooks(p_tenant uuid, p_event text, p_subject text, p_body jsonb) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_event uuid;
  v_n int;
BEGIN
  -- most tenants have none, and this stands in hot transactions
  IF NOT EXISTS (SELECT FROM webhook w WHERE w.tenant_id = p_tenant) THEN RETURN 0; END IF;
  v_event := uuidv7();
  INSERT INTO webhook_delivery (delivery_id, tenant_id, webhook_id, event_id, type, subject, body, due_at, give_up_at)
  SELECT uuidv7(), p_tenant, w.webhook_id, v_event, p_event, p_subject, p_body, CASE w.state WHEN 'active' THEN clock() END, clock() + interval '3 days'
  FROM webhook w WHERE w.tenant_id = p_tenant AND (p_event = ANY (w.events) OR '*' = ANY (w.events));
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: offer what waits behind a full window, by priority, then age; offer again what nobody leased, and put aside what nobody can lease
-- transition: none: readiness is the fact, an offer only a hint
-- fenced by: nothing
-- locks: the advisory lock on putting aside, shared with other offers; then ready rows (skipping locked ones): it never waits for a row
CREATE FUNCTION offer_ready(p_batch int, p_again_ms int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  q text;
  v_room int;
  v_ids uuid[];
  v_again uuid[];
  v_parked uuid[];
BEGIN
  -- whoever makes work leasable (a resume of a run or a queue, a new worker) waits for what is put aside here from an older snapshot, and brings it back; or this waits for them, and sees what they did
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('put aside', 0));
  FOR q IN
    WITH RECURSIVE w(queue) AS (
      (SELECT r.queue FROM ready r WHERE r.offered_at IS NULL ORDER BY r.queue LIMIT 1)
      UNION ALL
      SELECT (SELECT r.queue FROM ready r WHERE r.offered_at IS NULL AND r.queue > w.queue ORDER BY r.queue LIMIT 1) FROM w WHERE w.queue IS NOT NULL
    ) SELECT w.queue FROM w WHERE w.queue IS NOT NULL
  LOOP
    v_room := 5000 - (SELECT count(*) FROM (SELECT FROM ready r WHERE r.queue = q AND r.offered_at <= v_now LIMIT 5000) x);
    CONTINUE WHEN v_room < 50;
    v_ids := v_ids || (SELECT array_agg(x.step_id) FROM (SELECT r.step_id FROM ready r WHERE r.queue = q AND r.offered_at IS NULL ORDER BY r.priority DESC, r.since LIMIT least(v_room, p_batch) FOR UPDATE SKIP LOCKED) x);
  END LOOP;
  FOR q IN
    WITH RECURSIVE w(queue) AS (
      (SELECT r.queue FROM ready r WHERE r.offered_at IS NOT NULL ORDER BY r.queue LIMIT 1)
      UNION ALL
      SELECT (SELECT r.queue FROM ready r WHERE r.offered_at IS NOT NULL AND r.queue > w.queue ORDER BY r.queue LIMIT 1) FROM w WHERE w.queue IS NOT NULL
    ) SELECT w.queue FROM w WHERE w.queue IS NOT NULL
  LOOP
    -- each time twice as late as the time before: a queue without workers is not a storm
    v_again := v_again || (SELECT array_agg(x.step_id) FROM (
      SELECT r.step_id FROM ready r WHERE r.queue = q AND r.offered_at < v_now - p_again_ms * interval '1 ms' AND r.offered_at < v_now - least(p_again_ms * 2 ^ (least(r.offers, 10) - 1), 300000) * interval '1 ms'
      ORDER BY r.offered_at LIMIT p_batch FOR UPDATE SKIP LOCKED) x);
  END LOOP;
  IF v_ids IS NOT NULL AND EXISTS (SELECT FROM queue_pause) THEN
    -- what waits in a queue that its tenant paused leaves the backlog too: others wait behind it
    WITH p AS (
      UPDATE ready r SET offered_at = v_now + interval '5 min' WHERE r.step_id = ANY (v_ids) AND EXISTS (SELECT FROM queue_pause z WHERE z.queue = r.queue AND z.tenant_id = r.tenant_id) RETURNING r.step_id
    ) SELECT array_agg(p.step_id) INTO v_parked FROM p;
    v_ids := ARRAY(SELECT u FROM unnest(v_ids) u WHERE u <> ALL (coalesce(v_parked, '{}')));
  END IF;
  -- what nobody can lease leaves the window, or it would keep all others out: its run or queue is paused, its run is ending, or no worker serves it. It is looked at again after a while, and before that when its run is resumed or such a worker comes
  WITH p AS (
    UPDATE ready r SET offered_at = v_now + interval '5 min' WHERE r.step_id = ANY (v_again) AND NOT is_leasable(r) RETURNING r.step_id
  ) SELECT array_agg(p.step_id) INTO v_parked FROM p;
  v_ids := v_ids || CASE WHEN v_parked IS NULL THEN v_again ELSE ARRAY(SELECT u FROM unnest(v_again) u WHERE u <> ALL (v_parked)) END;
  IF coalesce(cardinality(v_ids), 0) = 0 THEN RETURN 0; END IF;
  UPDATE ready r SET offered_at = v_now, offers = least(r.offers + 1, 30000) WHERE r.step_id = ANY (v_ids);
  INSERT INTO outbox (part, tenant_id, topic, key, type, body)
  SELECT outbox_partition_of((array_agg(x.step_id))[1]), x.tenant_id, 'stanchion.workers.' || x.queue || '.commands.v1', gen_random_uuid()::text, 'ExecuteSteps',
         jsonb_build_object('workflow', x.workflow, 'version', x.workflow_version, 'node', x.node, 'steps', jsonb_agg(x.step_id))::text
  FROM (SELECT y.*, y.n / CASE WHEN y.offers <= 1 THEN max(CASE WHEN y.n = 0 THEN steps_in_offer(y.workflow, y.workflow_version, y.node, y.of) END) OVER (PARTITION BY y.tenant_id, y.queue, y.workflow, y.workflow_version, y.node) ELSE 1 END AS chunk FROM (
    SELECT r.*, row_number() OVER w - 1 AS n, count(*) OVER (PARTITION BY r.tenant_id, r.queue, r.workflow, r.workflow_version, r.node) AS of
    FROM ready r WHERE r.step_id = ANY (v_ids) WINDOW w AS (PARTITION BY r.tenant_id, r.queue, r.workflow, r.workflow_version, r.node ORDER BY r.priority DESC, r.since)) y) x
  GROUP BY x.tenant_id, x.queue, x.workflow, x.workflow_version, x.node, x.chunk;
  RETURN cardinality(v_ids);
END $$;

-- purpose: the last look before a request leaves, and its record: committed first, sent then
-- transition: operation prepared -> dispatched, or unknown; the approval that it needs granted -> spent, or expired
-- fenced by: the step's own fence; the run must still want it
-- locks: the step, the operation, its approval, the artifact that this is about (shared), the budget of what costs something, then the run (shared: a cancel comes before or after, never between)
CREATE FUNCTION op_dispatch(p_worker uuid, p_step uuid, p_fence bigint, p_operation uuid) RETURNS TABLE (outcome text, sends int, deadline timestamptz, why text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  s step;
  o operation;
  v_run text;
  v_task uuid;
  v_over jsonb;
  v_fault text;
  v_skew interval := '2 s';  -- how far the clock of the other side may be behind
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'op_dispatch');
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'stale', 0, NULL::timestamptz, NULL;
    RETURN;
  END IF;
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = s.tenant_id AND x.step_id = s.step_id FOR NO KEY UPDATE;
  IF o.state IS DISTINCT FROM 'prepared' THEN
    RETURN QUERY SELECT 'busy', 0, NULL::timestamptz, NULL;
    RETURN;
  END IF;
  -- the approval and the version that it is about stay as they are until this is committed
  PERFORM FROM approval a WHERE a.approval_id = o.approval_id AND a.tenant_id = o.tenant_id FOR NO KEY UPDATE;
  PERFORM FROM artifact f WHERE f.artifact_id = (SELECT v.artifact_id FROM approval a JOIN artifact_version v ON v.version_id = a.resource_id AND v.tenant_id = a.tenant_id WHERE a.approval_id = o.approval_id AND a.tenant_id = o.tenant_id) AND f.tenant_id = o.tenant_id FOR SHARE;
  IF o.cost IS NOT NULL THEN
    SELECT r.task_id INTO v_task FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
    PERFORM hold_budget(o.tenant_id, v_task);
  END IF;
  SELECT r.state INTO v_run FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id FOR SHARE;
  v_now := clock();
  IF v_run NOT IN ('created', 'running') AND s.kind <> 'undo' THEN
    -- once it was not found and was to be sent again under its key: what was sent before may still land
    IF may_still_land(o) THEN
      v_fault := 'doubt';
      PERFORM doubt_again(s, o, 'its run is being cancelled, and what was sent may still land');
    END IF;
    RETURN QUERY SELECT 'cancelled', 0, NULL::timestamptz, v_fault;
    RETURN;
  END IF;
  IF o.sends > 0 AND o.settled_by IS NULL AND coalesce(o.key_until < v_now, true) AND NOT coalesce(o.lands_until < v_now, false) THEN
    PERFORM doubt_again(s, o, 'the key it was sent with is no longer kept');
    RETURN QUERY SELECT 'key_over', o.sends::int, NULL::timestamptz, NULL;
    RETURN;
  END IF;
  IF o.cost IS NOT NULL THEN
    v_over := over_budget(o, v_task);
    IF v_over IS NOT NULL THEN
      PERFORM note_budget(o.tenant_id, o.run_id, o.step_id, 'BudgetRefused', p_fence, v_over || jsonb_build_object('operation', o.operation_id));
      RETURN QUERY SELECT 'over_budget', o.sends::int, NULL::timestamptz, budget_text(v_over->>'unit', (v_over->>'allowed')::numeric, (v_over->>'spent')::numeric, (v_over->>'asked')::numeric);
      RETURN;
    END IF;
  END IF;
  v_fault := use_approval(o);
  IF v_fault IS NOT NULL THEN
    RETURN QUERY SELECT 'unapproved', o.sends::int, NULL::timestamptz, v_fault;
    RETURN;
  END IF;
  IF o.cost IS NOT NULL THEN PERFORM charge(o, v_task, v_now); END IF;
  UPDATE operation x SET state = 'dispatched', version = x.version + 1, proof = s.fence, fence = s.fence, sends = x.sends + 1, dispatched_at = v_now, updated_at = v_now, error = NULL, settled_by = NULL,
    key_until = CASE WHEN x.sends = 0 THEN v_now + x.keeps_key_ms * interval '1 ms' ELSE x.key_until END, lands_until = v_now + x.lands_within_ms * interval '1 ms' + v_skew, unknown_since = NULL
  WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  UPDATE step x SET doubts = x.doubts + 1, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
  PERFORM note_operation(o, 'OperationDispatched', p_fence, NULL, jsonb_build_object('sends', o.sends));
  RETURN QUERY SELECT 'dispatched', o.sends::int, o.lands_until - v_skew, NULL;
END $$;

-- purpose: decide on an effect: its row is durable before anything leaves; whoever asks for the same again gets what is there
-- transition: operation -> prepared (born), not_done -> prepared
-- fenced by: the step's own fence
-- locks: the step, then the operation
CREATE FUNCTION op_prepare(p_worker uuid, p_step uuid, p_fence bigint, p_operation uuid, p_scope text, p_kind text, p_key text, p_payload jsonb, p_blob bytea, p_hash bytea,
  p_request_key text, p_reach text, p_can_query boolean, p_keeps_key_ms bigint, p_lands_within_ms bigint, p_undo_kind text, p_compensates uuid, p_needs_approval boolean, p_approval uuid, p_cost jsonb)
RETURNS TABLE (outcome text, operation_id uuid, request_key text, state text, receipt jsonb, error jsonb, hash bytea) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  s step;
  o operation;
  v_task uuid;
  v_scope uuid;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'op_prepare');
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'stale', NULL::uuid, NULL, NULL, NULL::jsonb, NULL::jsonb, NULL::bytea;
    RETURN;
  END IF;
  v_now := clock();
  SELECT r.task_id INTO v_task FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
  v_scope := CASE p_scope WHEN 'tenant' THEN s.tenant_id ELSE v_task END;
  INSERT INTO operation (tenant_id, operation_id, task_id, run_id, step_id, fence, scope_id, kind, key, state, payload, payload_blob, payload_hash, request_key, reach, can_query, keeps_key_ms, lands_within_ms, undo_kind, compensates, needs_approval, approval_id, cost, created_at, updated_at)
  VALUES (s.tenant_id, p_operation, v_task, s.run_id, s.step_id, s.fence, v_scope, p_kind, p_key, 'prepared', p_payload, p_blob, p_hash, p_request_key, p_reach, p_can_query, p_keeps_key_ms, p_lands_within_ms, p_undo_kind, p_compensates, p_needs_approval, p_approval, p_cost, v_now, v_now)
  ON CONFLICT (scope_id, kind, key, tenant_id) DO NOTHING RETURNING * INTO o;
  IF FOUND THEN
    PERFORM note_operation(o, 'OperationPrepared', p_fence, NULL, jsonb_build_object('kind', o.kind, 'key', o.key, 'hash', encode(o.payload_hash, 'hex'), 'compensates', o.compensates, 'approval', o.approval_id));
    RETURN QUERY SELECT 'prepared', o.operation_id, o.request_key, o.state, NULL::jsonb, NULL::jsonb, o.payload_hash;
    RETURN;
  END IF;
  SELECT x.* INTO o FROM operation x WHERE x.scope_id = v_scope AND x.kind = p_kind AND x.key = p_key AND x.tenant_id = s.tenant_id FOR NO KEY UPDATE;
  IF o.payload_hash <> p_hash THEN
    RETURN QUERY SELECT 'conflict', o.operation_id, o.request_key, o.state, NULL::jsonb, NULL::jsonb, o.payload_hash;
    RETURN;
  END IF;
  IF o.state IN ('prepared', 'not_done') AND (o.step_id, o.fence, o.approval_id, o.cost) IS DISTINCT FROM (s.step_id, s.fence, p_approval, p_cost) THEN
    -- whoever holds the step that asks for it now answers for it, unless another one does at this moment
    IF o.step_id <> s.step_id AND EXISTS (SELECT FROM step x WHERE x.step_id = o.step_id AND x.tenant_id = o.tenant_id AND x.fence = o.fence AND x.state IN ('leased', 'running')) THEN
      RETURN QUERY SELECT 'busy', o.operation_id, o.request_key, o.state, NULL::jsonb, NULL::jsonb, o.payload_hash;
      RETURN;
    END IF;
    UPDATE operation x SET run_id = s.run_id, step_id = s.step_id, fence = s.fence, updated_at = v_now,
      -- what it was charged with while it may have been done is what it costs
      approval_id = p_approval, cost = CASE WHEN x.cost IS NOT NULL AND is_charged(x) THEN x.cost ELSE p_cost END, state = 'prepared', version = x.version + (x.state = 'not_done')::int, proof = s.fence
    WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
    PERFORM note_operation(o, 'OperationPrepared', p_fence, NULL, jsonb_build_object('taken_over', true, 'approval', o.approval_id));
  END IF;
  RETURN QUERY SELECT CASE WHEN o.state = 'prepared' THEN 'prepared' WHEN o.state IN ('dispatched', 'unknown') THEN 'busy' ELSE 'settled' END,
    o.operation_id, o.request_key, o.state, o.receipt, o.error, o.payload_hash;
END $$;

-- purpose: what the outside system said about an operation of unknown fate; only what is conclusive moves it
-- transition: operation unknown -> confirmed|prepared|not_done
-- fenced by: the step's own fence
-- locks: the step, the operation, its task's budget, then the run (shared)
CREATE FUNCTION op_probed(p_worker uuid, p_step uuid, p_fence bigint, p_operation uuid, p_verdict text, p_receipt jsonb, p_provider_id text, p_detail jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_state text;
  v_wanted boolean;
  s step;
  o operation;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'op_probed');
  IF NOT FOUND THEN RETURN 'stale'; END IF;
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = s.tenant_id AND x.step_id = s.step_id FOR NO KEY UPDATE;
  IF o.state IS DISTINCT FROM 'unknown' THEN RETURN coalesce(o.state, 'gone'); END IF;
  v_now := clock();
  IF o.cost IS NOT NULL THEN PERFORM hold_costs(o); END IF;
  v_wanted := (SELECT r.state IN ('created', 'running') OR s.kind = 'undo' FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id FOR SHARE);
  -- not found proves nothing while the request may still land; the same key makes sending it again harmless
  v_state := CASE WHEN p_verdict = 'done' THEN 'confirmed'
    WHEN p_verdict = 'not_done' AND v_wanted AND coalesce(o.key_until > v_now + interval '1 s', false) THEN 'prepared'
    WHEN p_verdict = 'not_done' AND o.lands_until < v_now THEN CASE WHEN v_wanted THEN 'prepared' ELSE 'not_done' END
    ELSE 'unknown' END;
  PERFORM add_probe(o, format('worker %s', p_worker), p_verdict, v_state <> 'unknown', p_detail);
  IF v_state = 'unknown' THEN RETURN v_state; END IF;
  UPDATE operation x SET state = v_state, version = x.version + 1, proof = s.fence, updated_at = v_now, receipt = p_receipt, provider_id = coalesce(p_provider_id, x.provider_id),
    confirmed_at = CASE WHEN v_state = 'confirmed' THEN v_now END, unknown_since = NULL
  WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  UPDATE step x SET doubts = x.doubts - 1, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
  PERFORM note_operation(o, operation_event(v_state), p_fence, NULL, jsonb_build_object('verdict', p_verdict, 'probes', o.probes));
  -- by then it can't land any more; sent again under a key that holds a second one back it may be done already, and stays paid
  IF v_state IN ('prepared', 'not_done') AND o.lands_until < v_now THEN PERFORM give_cost_back(o, s.fence); END IF;
  PERFORM note_compensated(o);
  RETURN o.state;
END $$;

-- purpose: what the holder learned of a request that it sent: a receipt, a refusal, that it never left, or nothing
-- transition: operation dispatched -> confirmed|refused|prepared|unknown; with the last doubt gone its step may settle again
-- fenced by: the step's own fence; a stale receipt changes nothing and is kept beside the operation
-- locks: the step, then the operation, its task's budget, then what it compensates
CREATE FUNCTION op_settle(p_worker uuid, p_step uuid, p_fence bigint, p_operation uuid, p_state text, p_receipt jsonb, p_provider_id text, p_error jsonb) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  s step;
  o operation;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'op_settle');
  IF NOT FOUND THEN
    SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.step_id = p_step FOR NO KEY UPDATE;
    IF o.state = 'unknown' THEN PERFORM add_probe(o, format('worker %s, too late', p_worker), CASE p_state WHEN 'confirmed' THEN 'done' ELSE 'cant_tell' END, false, jsonb_strip_nulls(jsonb_build_object('receipt', p_receipt, 'provider_id', p_provider_id, 'error', p_error))); END IF;
    RETURN 'stale';
  END IF;
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = s.tenant_id AND x.step_id = s.step_id FOR NO KEY UPDATE;
  IF o.state IS DISTINCT FROM 'dispatched' THEN RETURN coalesce(o.state, 'gone'); END IF;
  v_now := clock();
  -- that this one was refused says nothing of one before it, which may be done or still land
  IF p_state = 'refused' AND o.sends > 1 THEN p_state := 'unknown'; END IF;
  UPDATE operation x SET state = p_state, version = x.version + 1, proof = s.fence, updated_at = v_now, receipt = p_receipt, provider_id = p_provider_id, error = p_error,
    sends = x.sends - (p_state = 'prepared')::int, confirmed_at = CASE WHEN p_state = 'confirmed' THEN v_now END, verified_at = CASE WHEN p_state = 'confirmed' THEN v_now END,
    unknown_since = CASE WHEN p_state = 'unknown' THEN v_now END
  WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  IF p_state <> 'unknown' THEN UPDATE step x SET doubts = x.doubts - 1, proof = s.fence WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id; END IF;
  PERFORM note_operation(o, operation_event(p_state), p_fence, NULL, jsonb_build_object('error', p_error));
  -- it was not done; what was charged for an earlier request, which may have been, stays
  IF o.cost IS NOT NULL AND (p_state = 'refused' OR p_state = 'prepared' AND EXISTS (SELECT FROM spending x WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id AND x.amount > 0 AND x.at = o.dispatched_at)) THEN
    PERFORM give_cost_back(o, s.fence);
  END IF;
  PERFORM note_compensated(o);
  RETURN o.state;
END $$;

-- purpose: what a step of kind undo is to undo
-- transition: none
-- fenced by: the step's own fence
-- locks: none
CREATE FUNCTION op_to_undo(p_step uuid, p_fence bigint) RETURNS TABLE (operation_id uuid, kind text, undo_kind text, payload jsonb, payload_blob bytea, receipt jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.operation_id, o.kind, o.undo_kind, o.payload, o.payload_blob, o.receipt
  FROM step s JOIN operation o ON o.operation_id = (s.input->>'operation')::uuid AND o.tenant_id = s.tenant_id
  WHERE s.step_id = p_step AND s.fence = p_fence AND s.kind = 'undo'
$$;

-- purpose: open a join that failed branches hold, without them, by a person's decision and for a reason
-- transition: barrier waiting -> released; the step it holds pending -> ready
-- fenced by: the release row's primary key
-- locks: the barrier, then pending steps of branches that stand still, the held step, the fan-out, the run; the audit chain last
CREATE FUNCTION open_barrier(p_tenant uuid, p_barrier uuid, p_reason text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  v_unsettled int;
  v_all boolean;
  v_held int[];
  v_ready uuid;
  v_after aftermath[];
BEGIN
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such barrier'; END IF;
  IF b.state <> 'waiting' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-JOIN-22 the barrier is %s', b.state); END IF;
  IF b.on_failed <> 'hold' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-JOIN-22 the barrier waits for no decision: its failed children don''t hold it'; END IF;
  v_unsettled := b.expected - b.succeeded - b.failed - b.skipped;
  -- branches that stand still since a step before the joined one has failed
  v_held := ARRAY(SELECT DISTINCT s.idx FROM step s WHERE s.fan_id = b.fan_id AND s.state = 'failed' AND p_barrier <> ALL (coalesce(s.feeds, '{}'))
    AND NOT EXISTS (SELECT FROM step x WHERE x.fan_id = s.fan_id AND x.idx = s.idx AND (x.state IN ('ready', 'leased', 'running', 'retry_wait', 'waiting', 'unknown', 'reconciling')
      OR (p_barrier = ANY (x.feeds) AND x.replaced_by IS NULL AND x.state IN ('succeeded', 'failed', 'cancelled', 'skipped')))));
  IF v_unsettled > cardinality(v_held) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-JOIN-22 %s of %s children have not settled: only failed ones can be left out', v_unsettled - cardinality(v_held), b.expected);
  END IF;
  v_all := v_unsettled = 0;
  -- it opens with these as failed, whatever becomes of them; its row goes on counting what settles
  b.failed := b.failed + v_unsettled;
  UPDATE step s SET failed_for = coalesce(s.failed_for, '{}') || jsonb_build_object(p_barrier, (SELECT error_of(x.step_id) FROM step x WHERE x.fan_id = s.fan_id AND x.idx = s.idx AND x.state = 'failed' ORDER BY x.updated_at LIMIT 1))
  WHERE s.fan_id = b.fan_id AND s.idx = ANY (v_held) AND p_barrier = ANY (s.feeds) AND s.replaced_by IS NULL AND s.state = 'pending';
  SELECT x.o_ready, x.o_after INTO v_ready, v_after FROM release_barrier(b) x;
  -- what these branches still wait for is let go by the sweep, once no join that holds waits for them
  IF v_all THEN v_after := v_after || close_barrier(b); END IF;
  IF v_ready IS NOT NULL THEN PERFORM make_ready(ARRAY[v_ready]); END IF;
  PERFORM conclude(v_after);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'barrier.open', p_barrier::text, jsonb_build_object('reason', p_reason, 'without', b.failed));
  RETURN true;
END $$;

-- purpose: a fan-out that waits for nothing is opened as soon as it is planned
-- transition: fan-out pending -> waiting
-- fenced by: the caller
-- locks: the fan-out's step
CREATE FUNCTION open_fan(p_fan uuid) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
BEGIN
  UPDATE step x SET state = 'waiting', version = x.version + 1, updated_at = clock() WHERE x.step_id = p_fan AND x.state = 'pending' RETURNING * INTO STRICT s;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version) VALUES (s.tenant_id, s.run_id, s.step_id, 'FanOpened', s.version);
  PERFORM ask_to_expand(s);
END $$;

-- purpose: a session of a person; only hashes of what opens it are kept; null for a person who is disabled; sessions that ended long ago go
-- transition: none
-- fenced by: the unique key of the token's hash
-- locks: the person, sessions that go; the audit chain last
CREATE FUNCTION open_session(p_tenant uuid, p_person uuid, p_kind text, p_hash bytea, p_csrf bytea, p_seconds int, p_idle_seconds int, p_by text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_name text;
  v_id uuid;
BEGIN
  -- against a disable at the same moment: whoever is second sees the first
  SELECT p.name INTO v_name FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant AND p.disabled_at IS NULL FOR SHARE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  DELETE FROM session s WHERE s.person_id = p_person AND s.tenant_id = p_tenant AND (s.expires_at < clock() - interval '30 days' OR s.revoked_at < clock() - interval '30 days');
  INSERT INTO session (session_id, tenant_id, person_id, kind, token_hash, csrf_secret, idle_seconds, expires_at)
  VALUES (uuidv7(), p_tenant, p_person, p_kind, p_hash, p_csrf, p_idle_seconds, clock() + p_seconds * interval '1 s') RETURNING session_id INTO v_id;
  PERFORM note_act(p_tenant, 'person:' || v_name, 'session.open', v_name, jsonb_build_object('session', v_id, 'kind', p_kind, 'by', p_by));
  RETURN v_id;
END $$;

-- purpose: the name of the event that says that an operation has reached a state
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION operation_event(p_state text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT 'Operation' || replace(initcap(replace(p_state, '_', ' ')), ' ', '')
$$;

-- purpose: what a probe asks after: the operations of a step whose fate nobody knows
-- transition: none
-- fenced by: the step's own fence
-- locks: none
CREATE FUNCTION ops_in_doubt(p_step uuid, p_fence bigint) RETURNS TABLE (operation_id uuid, kind text, request_key text, payload jsonb, payload_blob bytea, sends int, probes int, unknown_ms bigint, lands_in_ms bigint, compensated_receipt jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.operation_id, o.kind, o.request_key, o.payload, o.payload_blob, o.sends::int, o.probes::int, ceil(extract(epoch FROM clock() - o.unknown_since) * 1000)::bigint, ceil(extract(epoch FROM o.lands_until - clock()) * 1000)::bigint,
    (SELECT c.receipt FROM operation c WHERE c.operation_id = o.compensates AND c.tenant_id = o.tenant_id)
  FROM step s JOIN operation o ON o.step_id = s.step_id AND o.tenant_id = s.tenant_id
  WHERE s.step_id = p_step AND s.fence = p_fence AND s.state IN ('leased', 'running', 'reconciling') AND o.state = 'unknown' ORDER BY o.operation_id
$$;

-- purpose: how many messages wait to be published and how old the oldest is
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION outbox_lag() RETURNS TABLE (waiting bigint, oldest_seconds float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT (SELECT count(*) FROM (SELECT FROM outbox LIMIT 100000) x), coalesce(extract(epoch FROM clock() - (SELECT o.at FROM outbox o ORDER BY o.id LIMIT 1)), 0)
$$;

-- purpose: what waits in the outbox, by age, topic and partition, how much of it is one tenant's, and which relay holds each partition
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION outbox_state(p_tenant uuid) RETURNS TABLE (waiting bigint, own bigint, oldest_at timestamptz, ages jsonb, topics jsonb, partitions jsonb) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  -- a hundred thousand are looked at: beyond that it is "more", and the oldest are the ones that are seen
  WITH now AS MATERIALIZED (SELECT clock() AS at), o AS MATERIALIZED (
    SELECT x.part, x.tenant_id, x.topic, x.at, extract(epoch FROM now.at - x.at) AS age FROM (SELECT y.part, y.tenant_id, y.topic, y.at FROM outbox y ORDER BY y.id LIMIT 100000) x, now
  ), t AS (
    SELECT o.topic, count(*) AS waiting, min(o.at) AS oldest_at FROM o GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 200
  )
  SELECT (SELECT count(*) FROM o), (SELECT count(*) FROM o WHERE o.tenant_id = p_tenant), (SELECT min(o.at) FROM o),
    (SELECT jsonb_agg(jsonb_build_object('below_seconds', b.top, 'waiting', (SELECT count(*) FROM o WHERE (o.age >= b.bottom OR b.bottom = 0) AND (b.top IS NULL OR o.age < b.top))) ORDER BY b.bottom)
     FROM (VALUES (0, 1), (1, 5), (5, 30), (30, 300), (300, NULL)) b(bottom, top)),
    (SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') FROM t),
    (SELECT jsonb_agg(jsonb_build_object('part', p.part, 'relay', r.name, 'relay_id', p.owner, 'fence', p.fence, 'held', p.owner IS NOT NULL AND p.lease_until >= now.at, 'lease_until', nullif(p.lease_until, '-infinity'), 'seen_at', r.seen_at,
       'waiting', (SELECT count(*) FROM o WHERE o.part = p.part), 'oldest_at', (SELECT min(o.at) FROM o WHERE o.part = p.part)) ORDER BY p.part)
     FROM outbox_partition p LEFT JOIN relay r ON r.relay_id = p.owner, now)
$$;

-- purpose: what of an operation's cost its task's budget does not cover, the first such unit; NULL when it may go out. What was charged before costs nothing anew, and what undoes is never held back
-- transition: none
-- fenced by: the caller holds the budget
-- locks: none
CREATE FUNCTION over_budget(o operation, p_task uuid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT jsonb_build_object('unit', b.unit, 'allowed', b.allowed, 'spent', b.spent, 'asked', trim_scale(c.value::numeric))
  FROM jsonb_each_text(o.cost) c JOIN budget b ON b.task_id = p_task AND b.tenant_id = o.tenant_id AND b.unit = c.key
  WHERE o.compensates IS NULL AND b.spent + c.value::numeric > b.allowed AND NOT is_charged(o) ORDER BY b.unit LIMIT 1
$$;

-- purpose: one of the things that a step waits for was skipped as a whole: it runs with what the others bring, and is skipped when all were
-- transition: step pending -> ready, or pending -> skipped when nothing came at all
-- fenced by: the step's row lock: of two that are passed over at once, the second sees the first
-- locks: the step, then those that only it could have started
CREATE FUNCTION pass_over(p_step uuid, p_reason jsonb, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  s step;
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_skipped := '{}';
  UPDATE step x SET waits = x.waits - 1, updated_at = v_now WHERE x.step_id = p_step AND x.state = 'pending' AND x.waits > 1;
  IF FOUND THEN RETURN; END IF;
  -- it was the last: whether anything came is looked at under the step's lock
  PERFORM FROM step x WHERE x.step_id = p_step FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM barrier b, barrier_release r WHERE b.step_id = p_step AND b.state = 'released' AND r.barrier_id = b.barrier_id AND r.tenant_id = b.tenant_id AND (b.kind = 'gather' OR r.included > 0)) THEN
    UPDATE step x SET state = 'ready', waits = 0, version = x.version + 1, updated_at = v_now, expires_at = v_now + x.total_ms * interval '1 ms'
    WHERE x.step_id = p_step AND x.state = 'pending' AND x.kind = 'step' RETURNING * INTO s;
    IF FOUND THEN
      INSERT INTO event (tenant_id, run_id, step_id, kind, version, at) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepReady', s.version, v_now);
      PERFORM make_ready(ARRAY[s.step_id]);
    END IF;
  ELSE
    SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM skip_step(p_step, p_reason, false) x;
  END IF;
END $$;

-- purpose: pause a queue of a tenant: nothing new of it is leased or offered, what runs goes on; what is offered already leaves the window to others
-- transition: none
-- fenced by: the primary key: of two who pause it at once the first one's reason stands
-- locks: the advisory lock on putting aside, shared with offers; ready rows (skipping locked ones); the audit chain last
CREATE FUNCTION pause_queue(p_tenant uuid, p_queue text, p_reason text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('put aside', 0));
  INSERT INTO queue_pause (tenant_id, queue, reason, paused_by, since) VALUES (p_tenant, p_queue, p_reason, p_actor, v_now) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE ready r SET offered_at = v_now + interval '5 min' WHERE r.step_id = ANY (ARRAY(
    SELECT x.step_id FROM ready x WHERE x.queue = p_queue AND x.offered_at <= v_now AND x.tenant_id = p_tenant FOR UPDATE SKIP LOCKED));
  PERFORM note_act(p_tenant, p_actor, 'queue.pause', p_queue, jsonb_build_object('reason', p_reason));
  RETURN true;
END $$;

-- purpose: pause or resume a task's run: while it is paused nothing of it is leased, what runs goes on
-- transition: none (paused_at is a flag)
-- fenced by: nothing
-- locks: for a resume the advisory lock on putting aside and ready rows (skipping locked ones); then the run; the audit chain last
CREATE FUNCTION pause_task(p_tenant uuid, p_task uuid, p_paused boolean, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  r run;
BEGIN
  IF NOT EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  -- what could not be leased while it was paused is offered anew at once; before the run is locked, since a lease takes both the other way round
  IF NOT p_paused THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('put aside', 0));
    UPDATE ready y SET offered_at = NULL WHERE y.step_id = ANY (ARRAY(SELECT y.step_id FROM ready y WHERE y.step_id = ANY (ARRAY(
      SELECT s.step_id FROM step s WHERE s.run_id = (SELECT t.run_id FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) AND s.state = 'ready')) FOR UPDATE SKIP LOCKED));
  END IF;
  UPDATE run x SET paused_at = CASE WHEN p_paused THEN coalesce(x.paused_at, v_now) END, updated_at = v_now
  WHERE x.run_id = (SELECT t.run_id FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) AND x.state IN ('created', 'running') AND (x.paused_at IS NOT NULL) <> p_paused RETURNING * INTO r;
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant AND t.state NOT IN ('accepted', 'running', 'awaiting_approval')) THEN
      RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-TASK-05 the task has ended, or is about to';
    END IF;
    RETURN false;
  END IF;
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor) VALUES (r.tenant_id, r.run_id, CASE WHEN p_paused THEN 'RunPaused' ELSE 'RunResumed' END, r.version, v_now, p_actor);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, CASE WHEN p_paused THEN 'task.pause' ELSE 'task.resume' END, p_task::text, '{}');
  RETURN true;
END $$;

-- purpose: hold the deliveries of a webhook, or let them go again, also after it failed; false when there is none
-- transition: webhook active -> paused, paused|failed -> active; its deliveries are held, or due at once
-- fenced by: nothing
-- locks: the webhook, its deliveries; the audit chain last
CREATE FUNCTION pause_webhook(p_tenant uuid, p_webhook uuid, p_paused boolean, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_was text;
BEGIN
  SELECT w.state INTO v_was FROM webhook w WHERE w.webhook_id = p_webhook AND w.tenant_id = p_tenant FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  IF v_was = (CASE WHEN p_paused THEN 'paused' ELSE 'active' END) THEN RETURN true; END IF;
  UPDATE webhook w SET state = CASE WHEN p_paused THEN 'paused' ELSE 'active' END, changed_at = clock() WHERE w.webhook_id = p_webhook AND w.tenant_id = p_tenant;
  UPDATE webhook_delivery d SET due_at = CASE WHEN NOT p_paused THEN clock() END, give_up_at = CASE WHEN p_paused THEN d.give_up_at ELSE greatest(d.give_up_at, clock() + interval '1 hour') END
  WHERE d.webhook_id = p_webhook AND d.tenant_id = p_tenant AND d.state = 'due';
  PERFORM note_act(p_tenant, p_actor, CASE WHEN p_paused THEN 'webhook.pause' ELSE 'webhook.resume' END, p_webhook::text, jsonb_build_object('before', v_was));
  RETURN true;
END $$;

-- purpose: pin a version, which retention and deletion then leave alone, or let it go
-- transition: none (pinned_at is a flag)
-- fenced by: the version being available
-- locks: the version; the audit chain last
CREATE FUNCTION pin_artifact(p_tenant uuid, p_version uuid, p_pinned boolean, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v artifact_version;
BEGIN
  SELECT x.* INTO v FROM artifact_version x WHERE x.version_id = p_version AND x.tenant_id = p_tenant AND x.state = 'available' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such artifact in this tenant'; END IF;
  IF (v.pinned_at IS NOT NULL) = p_pinned THEN RETURN false; END IF;
  UPDATE artifact_version x SET pinned_at = CASE WHEN p_pinned THEN v_now END WHERE x.version_id = p_version AND x.tenant_id = p_tenant;
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body) VALUES (p_tenant, v.run_id, CASE WHEN p_pinned THEN 'ArtifactPinned' ELSE 'ArtifactUnpinned' END, v.version, v_now, p_actor, jsonb_build_object('artifact', p_version));
  PERFORM note_act(p_tenant, p_actor, CASE WHEN p_pinned THEN 'artifact.pin' ELSE 'artifact.unpin' END, p_version::text, '{}');
  RETURN true;
END $$;

-- purpose: the branch in which a fan-out stands
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION place_of(p_fan uuid) RETURNS TABLE (fan_id uuid, idx int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT s.fan_id, s.idx FROM step s WHERE s.step_id = p_fan
$$;

-- purpose: what maintenance is due: derives the periodic jobs of this moment, gives up those that keep killing their worker, and lists what waits for one
-- transition: maintenance job: born due; running -> failed when its workers were lost too often
-- fenced by: the primary key: one row a kind and period, however many derive it
-- locks: new rows; rows of lost workers by kind and key (skipping locked ones)
CREATE FUNCTION plan_maintenance(p_kinds text[], p_seconds int[], p_tries int, p_limit int) RETURNS TABLE (kind text, key text, tenant_id uuid, fence bigint, offer int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock();
  v_nobody uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
  UPDATE maintenance_job j SET state = 'failed', finished_at = v_now, lease_until = NULL, result = coalesce(j.result, '{}') || '{"error": {"code": "E-MAINT-03", "what": "its workers were lost in the middle of it"}}'
  WHERE (j.kind, j.key, j.tenant_id) IN (
    SELECT x.kind, x.key, x.tenant_id FROM maintenance_job x WHERE x.finished_at IS NULL AND x.state = 'running' AND x.lease_until < v_now AND x.tries + 1 >= p_tries
    ORDER BY x.kind, x.key LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
  -- a period is named by its start; while an earlier one of its kind is open there is nothing to add: it does the same work
  INSERT INTO maintenance_job (kind, key, tenant_id, due_at)
  SELECT p.kind, p.key, v_nobody, v_now
  FROM (SELECT u.kind, to_char(u.starts AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS key
        FROM (SELECT w.kind, to_timestamp(floor(extract(epoch FROM v_now) / w.seconds) * w.seconds) AS starts FROM unnest(p_kinds, p_seconds) w(kind, seconds)) u) p
  WHERE NOT EXISTS (SELECT FROM maintenance_job j WHERE j.kind = p.kind AND j.tenant_id = v_nobody AND (j.key = p.key OR j.finished_at IS NULL))
  ON CONFLICT DO NOTHING;
  RETURN QUERY
  -- what nobody claims is offered again after 1, 3, 7, 15 minutes: an entry of the queue may be lost, stuck or forged
  SELECT j.kind, j.key, j.tenant_id, j.fence, floor(log(2, 1 + greatest(0, extract(epoch FROM v_now - coalesce(j.lease_until, j.due_at))) / 60))::int
  FROM maintenance_job j
  WHERE j.finished_at IS NULL AND ((j.state = 'due' AND j.due_at <= v_now) OR (j.state = 'running' AND j.lease_until < v_now))
  ORDER BY j.due_at LIMIT p_limit;
END $$;

-- purpose: put messages (replies, dead letters) into the outbox from a service
-- transition: none
-- fenced by: nothing
-- locks: only new rows
CREATE FUNCTION post(p_messages jsonb) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, causation_id, body)
  SELECT outbox_partition_for(x.key), x.tenant_id, x.topic, x.key, x.type, x.correlation_id, x.causation_id, x.body
  FROM jsonb_to_recordset(p_messages) AS x(tenant_id uuid, topic text, key text, type text, correlation_id text, causation_id text, body text)
$$;

-- purpose: a person wants the outside system to be asked now, not at the next due time
-- transition: none
-- fenced by: nothing; a probe is a lease as any other
-- locks: the step; the audit chain last
CREATE FUNCTION probe_operation(p_tenant uuid, p_operation uuid, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  o operation;
BEGIN
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = p_tenant;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such operation in this tenant'; END IF;
  SELECT x.* INTO s FROM step x WHERE x.step_id = o.step_id AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF o.state = 'unknown' AND s.state = 'unknown' THEN
    DELETE FROM timer t WHERE t.target_id = s.step_id AND t.kind = 'probe';
    IF NOT EXISTS (SELECT FROM ready y WHERE y.step_id = s.step_id) THEN PERFORM make_ready(ARRAY[s.step_id]); END IF;
    PERFORM note_act(p_tenant, p_actor, 'operation.reconcile', p_operation::text, '{}');
  END IF;
  RETURN o.state;
END $$;

-- purpose: set aside for a while, longer each time, one item of upkeep that the database refuses, so that no batch meets it meanwhile
-- transition: none
-- fenced by: nothing
-- locks: the row in set_aside
CREATE FUNCTION put_aside(p_kind text, p_target uuid, p_code text, p_why text) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_tries int;
BEGIN
  INSERT INTO set_aside AS x (tenant_id, kind, target_id, run_id, code, why, tries, since, retry_at)
  SELECT o.tenant_id, p_kind, p_target, o.run_id, p_code, left(p_why, 1000), 1, v_now, v_now + interval '30 s' FROM (
    SELECT s.tenant_id, s.run_id FROM step s WHERE p_kind IN ('lease', 'expansion') AND s.step_id = p_target
    UNION ALL SELECT t.tenant_id, t.run_id FROM timer t WHERE p_kind = 'timer' AND t.timer_id = p_target
    UNION ALL SELECT b.tenant_id, b.run_id FROM barrier b WHERE p_kind = 'barrier' AND b.barrier_id = p_target
    UNION ALL SELECT r.tenant_id, r.run_id FROM run r WHERE p_kind = 'run' AND r.run_id = p_target
    UNION ALL SELECT a.tenant_id, a.run_id FROM attempt a WHERE p_kind = 'lease' AND a.step_id = p_target) o LIMIT 1
  ON CONFLICT (target_id, kind, tenant_id) DO UPDATE SET code = excluded.code, why = excluded.why, tries = least(x.tries + 1, 1000), retry_at = v_now + least(interval '30 s' * 2 ^ least(x.tries, 10), interval '1 h')
  RETURNING x.tries INTO v_tries;
  -- what was not set aside again has gone well since, or is gone
  DELETE FROM set_aside x WHERE x.retry_at < v_now - interval '1 day';
  RETURN coalesce(v_tries, 0);
END $$;

-- purpose: what the relay had parked goes back into the outbox as the message that it was: to its readers it is the same one, in its place among its run's events
-- transition: none
-- fenced by: the caller has claimed the letters
-- locks: only new rows
CREATE FUNCTION put_back(p_ids uuid[], p_tenant uuid) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  INSERT INTO outbox (part, tenant_id, message_id, topic, key, type, correlation_id, causation_id, sequence, at, body)
  SELECT d.partition, coalesce(d.tenant_id, p_tenant), coalesce(header_of(d.headers, 'ce_id')::uuid, uuidv7()), substr(d.topic, 8), convert_from(d.key, 'UTF8'), header_of(d.headers, 'ce_type'),
         header_of(d.headers, 'ce_correlationid'), header_of(d.headers, 'ce_causationid'), header_of(d.headers, 'ce_sequence')::bigint, coalesce(header_of(d.headers, 'ce_time')::timestamptz, clock()), convert_from(d.value, 'UTF8')
  FROM dead_letter d WHERE d.dead_letter_id = ANY (p_ids) AND d.topic LIKE 'outbox:%' ORDER BY d."offset"
$$;

-- purpose: store values too large for a row, named by their content; storing the same twice is one row
-- transition: none
-- fenced by: nothing: a blob means nothing until a fenced row names it
-- locks: only new rows, in name order
CREATE FUNCTION put_blobs(p_tenants uuid[], p_sha256 bytea[], p_sizes int[], p_bodies bytea[]) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  -- each once: a batch may bring the same value several times, and a row can't be met twice by one ON CONFLICT
  INSERT INTO blob (tenant_id, sha256, size, body) SELECT DISTINCT ON (x.h, x.t) x.t, x.h, x.s, x.b FROM unnest(p_tenants, p_sha256, p_sizes, p_bodies) x(t, h, s, b) ORDER BY x.h, x.t
  -- stored again: it is about to be named again, so it must not be removed as unused now
  ON CONFLICT (sha256, tenant_id) DO UPDATE SET created_at = clock() WHERE blob.created_at < clock() - interval '1 hour'
$$;

-- purpose: put a person into a team, or take them out; false when there is no such person
-- transition: none
-- fenced by: the primary key
-- locks: the row of the member; the audit chain last
CREATE FUNCTION put_in_team(p_tenant uuid, p_team text, p_name text, p_in boolean, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_person uuid := (SELECT p.person_id FROM person p WHERE p.tenant_id = p_tenant AND p.name = p_name);
BEGIN
  IF v_person IS NULL THEN RETURN false; END IF;
  IF p_in THEN
    INSERT INTO team_member (tenant_id, team, person_id) VALUES (p_tenant, p_team, v_person) ON CONFLICT DO NOTHING;
  ELSE
    DELETE FROM team_member m WHERE m.tenant_id = p_tenant AND m.team = p_team AND m.person_id = v_person;
  END IF;
  IF FOUND THEN PERFORM note_act(p_tenant, p_actor, CASE WHEN p_in THEN 'team.add' ELSE 'team.remove' END, p_team, jsonb_build_object('person', p_name)); END IF;
  RETURN true;
END $$;

-- purpose: whether an offer may go out at once: the tenant has not paused the queue, no backlog waits before it and, sampled, the window is not full
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION queue_has_room(p_queue text, p_tenant uuid, p_sample boolean) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = stanchion, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM ready r WHERE r.queue = p_queue AND r.offered_at IS NULL) OR EXISTS (SELECT FROM queue_pause q WHERE q.queue = p_queue AND q.tenant_id = p_tenant) THEN RETURN false; END IF;
  IF NOT p_sample THEN RETURN true; END IF;
  RETURN (SELECT count(*) FROM (SELECT FROM ready r WHERE r.queue = p_queue AND r.offered_at <= clock() LIMIT 5000) x) < 5000;
END $$;

-- purpose: a stored value by its name, for services
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION read_blob(p_tenant uuid, p_sha256 bytea) RETURNS bytea LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.body FROM blob b WHERE b.sha256 = p_sha256 AND b.tenant_id = p_tenant
$$;

-- purpose: the samples of a tenant, or of the platform, in spans of so many seconds; a span that nobody sampled is missing, one in which the tenant had nothing is empty; `levelled` when what stood was looked at as well
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION read_samples(p_tenant uuid, p_into int, p_from timestamptz, p_to timestamptz) RETURNS TABLE (slot timestamptz, body jsonb, levelled boolean) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  -- what is folded already is read so, where that is fine enough
  WITH m AS MATERIALIZED (
    SELECT least(greatest(coalesce(CASE WHEN p_into >= 300 THEN max(x.slot) + interval '300 s' END, p_from), p_from), p_to) AS middle
    FROM sample x WHERE x.tenant_id = '00000000-0000-0000-0000-000000000000' AND x.seconds = 300
  ), looked AS (
    SELECT date_bin(p_into * interval '1 s', x.slot, '2000-01-01Z') AS slot, bool_or(x.body->'levels' ? 'slots') AS levelled FROM m, LATERAL (VALUES (300, p_from, m.middle), (10, m.middle, p_to)) r(seconds, since, till), sample x
    WHERE x.tenant_id = '00000000-0000-0000-0000-000000000000' AND x.seconds = r.seconds AND x.slot >= r.since AND x.slot < r.till GROUP BY 1
  )
  SELECT l.slot, f.body, l.levelled FROM looked l LEFT JOIN (SELECT y.slot, y.body FROM m, folded(p_tenant, p_into, p_from, m.middle, p_to) y) f ON f.slot = l.slot ORDER BY l.slot
$$;

-- purpose: a step's result for the planner: the list behind a fan-out, or where it is stored
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION read_value(p_tenant uuid, p_step uuid) RETURNS TABLE (body jsonb, blob bytea, sha256 bytea) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT r.body, b.body, r.blob FROM result r LEFT JOIN blob b ON b.sha256 = r.blob AND b.tenant_id = r.tenant_id WHERE r.step_id = p_step AND r.tenant_id = p_tenant
$$;

-- purpose: take back leases that expired, by the database's clock, or (p_only) one of them; a loss counts when the step had begun
-- transition: step leased|running|reconciling -> ready, failed when its attempts are used up, or unknown when it had sent something; attempt -> lost
-- fenced by: the attempt's expiry, checked again under the step's lock
-- locks: steps by id (skipping locked ones), then slots, barriers, held steps, runs, tasks
CREATE FUNCTION reap(p_limit int, p_only uuid DEFAULT NULL) RETURNS TABLE (step_id uuid, state text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_ids uuid[];
  v_ready uuid[] := '{}';
  v_dead uuid[] := '{}';
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
  v_now timestamptz := clock();
  v_aside uuid[] := aside('lease');
  s step;
  t attempt;
  v_final boolean;
  v_workers uuid[];
  v_worst int[];
  v_x record;
BEGIN
  IF p_only IS NULL THEN
    SELECT array_agg(x.step_id) INTO v_ids FROM (SELECT a.step_id FROM attempt a WHERE a.ended_at IS NULL AND a.lease_until < v_now AND a.step_id <> ALL (v_aside) ORDER BY a.lease_until LIMIT p_limit) x;
  ELSE
    v_ids := ARRAY[p_only];
  END IF;
  IF v_ids IS NULL THEN RETURN; END IF;
  -- a worker's end is put down to the step that was lost most often: once it is known for that, its neighbours lose no attempt with it
  SELECT array_agg(x.worker_id), array_agg(x.losses) INTO v_workers, v_worst FROM (
    SELECT a.worker_id, max((SELECT n.losses FROM step n WHERE n.step_id = a.step_id AND n.tenant_id = a.tenant_id)) AS losses FROM attempt a
    WHERE a.step_id = ANY (v_ids) AND a.ended_at IS NULL AND a.started_at IS NOT NULL GROUP BY a.worker_id) x WHERE x.losses > 1;
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) AND x.state IN ('leased', 'running', 'reconciling') ORDER BY x.step_id FOR NO KEY UPDATE SKIP LOCKED LOOP
    UPDATE attempt a SET state = 'lost', ended_at = clock(), counted = s.state <> 'reconciling' AND s.doubts = 0 AND a.started_at IS NOT NULL AND s.losses >= coalesce(v_worst[array_position(v_workers, a.worker_id)], 0),
      error = jsonb_build_object('code', CASE WHEN a.deadline_at < clock() THEN 'E-STEP-22' ELSE 'E-LEASE-03' END, 'what', CASE WHEN a.deadline_at < clock() THEN 'it ran into its timeout' ELSE 'its worker was lost' END)
    WHERE a.step_id = s.step_id AND a.fence = s.fence AND a.ended_at IS NULL AND a.lease_until < clock() RETURNING * INTO t;
    CONTINUE WHEN NOT FOUND;
    IF s.doubts > 0 THEN
      PERFORM doubt_step(s, -1, 'reaper', 0, jsonb_build_object('worker', t.worker_id, 'error', t.error));
      step_id := s.step_id; state := 'unknown';
      RETURN NEXT;
      CONTINUE;
    END IF;
    v_final := (t.counted AND s.attempts + 1 >= s.max_attempts) OR (s.state <> 'reconciling' AND coalesce(s.expires_at <= clock(), false));
    UPDATE step x SET state = CASE WHEN v_final THEN 'failed' ELSE 'ready' END, version = x.version + 1, proof = -1, updated_at = clock(),
      attempts = x.attempts + t.counted::int, losses = least(x.losses + 1, 30000) WHERE x.step_id = s.step_id RETURNING * INTO s;
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, actor, body)
    VALUES (s.tenant_id, s.run_id, s.step_id, 'StepLost', s.version, s.fence, 'reaper', jsonb_build_object('counted', t.counted, 'worker', t.worker_id, 'error', t.error, 'attempts', s.attempts));
    IF v_final THEN
      SELECT * INTO v_x FROM step_failed(s, t.error);
      v_dead := v_dead || s.step_id || v_x.o_skipped;
      v_arrivals := v_arrivals || v_x.o_arrivals;
      v_after := v_after || v_x.o_after;
    ELSE
      v_ready := v_ready || s.step_id;
    END IF;
    step_id := s.step_id; state := s.state;
    RETURN NEXT;
  END LOOP;
  PERFORM make_ready(v_ready);
  PERFORM spread(v_arrivals, v_dead, v_after);
END $$;

-- purpose: what is derived and belongs to no live run: rows in ready and timers of runs that ended or are gone
-- transition: none
-- fenced by: the run's end, which is never taken back
-- locks: the rows themselves
CREATE FUNCTION rebuild_rest(p_apply boolean) RETURNS TABLE (what text, which uuid, detail text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  x record;
BEGIN
  FOR x IN SELECT y.step_id FROM ready y WHERE NOT EXISTS (SELECT FROM step s, run r WHERE s.step_id = y.step_id AND r.run_id = s.run_id AND r.ended_at IS NULL) LOOP
    IF p_apply THEN DELETE FROM ready y WHERE y.step_id = x.step_id; END IF;
    RETURN QUERY SELECT 'ready', x.step_id, 'its run has ended';
  END LOOP;
  FOR x IN SELECT t.timer_id, t.kind, t.target_id FROM timer t WHERE NOT EXISTS (SELECT FROM run r WHERE r.run_id = t.run_id AND r.ended_at IS NULL) LOOP
    IF p_apply THEN DELETE FROM timer t WHERE t.timer_id = x.timer_id; END IF;
    RETURN QUERY SELECT 'timer', x.target_id, format('%s is due, though its run has ended', x.kind);
  END LOOP;
  IF p_apply THEN DELETE FROM node_stat; END IF;
END $$;

-- purpose: what is derived from a live run's steps and joins: its rows in ready, its timers, its open count, its joins' counts; tells what is wrong, and with p_apply puts it right
-- transition: none; a join that a right count opens is decided as by an arrival
-- fenced by: each row is looked at again under its step's lock
-- locks: steps by id, then slots and barriers, then the run
CREATE FUNCTION rebuild_run(p_run uuid, p_apply boolean) RETURNS TABLE (what text, which uuid, detail text) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock();
  v_ready uuid[] := '{}';
  v_open int;
  x record;
BEGIN
  IF NOT EXISTS (SELECT FROM run r WHERE r.run_id = p_run AND r.ended_at IS NULL) THEN RETURN; END IF;
  IF p_apply THEN PERFORM FROM step s WHERE s.run_id = p_run AND s.state IN ('ready', 'retry_wait', 'waiting', 'unknown') ORDER BY s.step_id FOR NO KEY UPDATE; END IF;
  FOR x IN SELECT s.step_id FROM step s WHERE s.run_id = p_run AND s.state = 'ready' AND NOT EXISTS (SELECT FROM ready y WHERE y.step_id = s.step_id) ORDER BY s.step_id LOOP
    v_ready := v_ready || x.step_id;
    RETURN QUERY SELECT 'ready', x.step_id, 'a ready step that no worker can find';
  END LOOP;
  FOR x IN SELECT y.step_id, s.state FROM step s JOIN ready y ON y.step_id = s.step_id WHERE s.run_id = p_run AND s.state NOT IN ('ready', 'unknown') LOOP
    IF p_apply THEN DELETE FROM ready y WHERE y.step_id = x.step_id; END IF;
    RETURN QUERY SELECT 'ready', x.step_id, format('offered, though it is %s', x.state);
  END LOOP;
  FOR x IN SELECT * FROM missing_timers(p_run) LOOP
    IF p_apply THEN
      INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id, version) VALUES (x.tenant_id, x.kind, x.due_at, p_run, x.target_id, x.version);
    END IF;
    RETURN QUERY SELECT 'timer', x.target_id, format('%s is missing, due %s', x.kind, x.due_at AT TIME ZONE 'UTC');
  END LOOP;
  FOR x IN
    SELECT t.timer_id, t.kind, t.target_id FROM timer t WHERE t.target_id IN (SELECT s.step_id FROM step s WHERE s.run_id = p_run)
      AND NOT EXISTS (SELECT FROM step s WHERE s.step_id = t.target_id AND CASE t.kind WHEN 'retry' THEN s.state = 'retry_wait' AND s.version = t.version WHEN 'expand' THEN s.state = 'waiting' WHEN 'approval' THEN s.state = 'waiting' WHEN 'probe' THEN s.state = 'unknown' AND s.version = t.version
        ELSE s.state NOT IN ('succeeded', 'failed', 'cancelled', 'skipped') END)
    UNION ALL SELECT t.timer_id, t.kind, t.target_id FROM timer t, barrier b WHERE b.run_id = p_run AND t.target_id = b.barrier_id AND b.state <> 'waiting'
  LOOP
    IF p_apply THEN DELETE FROM timer t WHERE t.timer_id = x.timer_id; END IF;
    RETURN QUERY SELECT 'timer', x.target_id, format('%s is due, though there is nothing to do', x.kind);
  END LOOP;
  IF p_apply THEN PERFORM make_ready(v_ready); END IF;
  FOR x IN SELECT b AS b, b.barrier_id FROM barrier b WHERE b.run_id = p_run AND b.kind = 'gather' AND b.state = 'waiting' AND is_miscounted(b) ORDER BY b.barrier_id LOOP
    IF p_apply THEN PERFORM recount_barrier(x.barrier_id); END IF;
    RETURN QUERY SELECT 'barrier', x.barrier_id, 'its counts are not those of its branches';
  END LOOP;
  IF p_apply THEN PERFORM FROM run r WHERE r.run_id = p_run FOR NO KEY UPDATE; END IF;
  SELECT count(*)::int INTO v_open FROM step s WHERE s.run_id = p_run AND s.counts AND s.state NOT IN ('succeeded', 'skipped', 'cancelled');
  FOR x IN SELECT r.open FROM run r WHERE r.run_id = p_run AND r.state IN ('created', 'running') AND r.open <> v_open LOOP
    IF p_apply THEN
      -- at nothing open the run ends, as after the last step: leave one to be counted down
      UPDATE run r SET open = greatest(v_open, 1), updated_at = v_now WHERE r.run_id = p_run;
      IF v_open = 0 THEN PERFORM conclude(ARRAY[ROW(p_run, 1, NULL, NULL, NULL)::aftermath]); END IF;
    END IF;
    RETURN QUERY SELECT 'run', p_run, format('it counts %s as open, %s are', x.open, v_open);
  END LOOP;
END $$;

-- purpose: set a waiting join's counts to what its branches say, after a counter was damaged from outside; then decide it, as an arrival would have
-- transition: those of decide_barrier
-- fenced by: the join's state; what has settled is counted under the locks that every arrival takes
-- locks: slots, the barrier, then those of any arrival; the audit chain last
CREATE FUNCTION recount_barrier(p_barrier uuid) RETURNS jsonb LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  b barrier;
  v_before jsonb;
  v_after jsonb;
  c record;
  d record;
BEGIN
  PERFORM FROM barrier_slot l WHERE l.barrier_id = p_barrier ORDER BY l.slot FOR NO KEY UPDATE;
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.state = 'waiting' AND x.kind = 'gather' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT jsonb_build_object('counts', jsonb_build_array(b.succeeded, b.failed, b.skipped), 'slots_left', b.slots_left, 'left', coalesce(sum(l.remaining), 0)) INTO v_before FROM barrier_slot l WHERE l.barrier_id = p_barrier;
  IF b.slots > 0 THEN
    UPDATE barrier_slot l SET remaining = x.remaining FROM slots_of(b) x WHERE l.barrier_id = p_barrier AND l.slot = x.slot AND l.remaining <> x.remaining;
  END IF;
  SELECT coalesce(sum(x.ok), 0)::int AS ok, coalesce(sum(x.bad), 0)::int AS bad, coalesce(sum(x.skipped), 0)::int AS skipped, count(*) FILTER (WHERE x.remaining > 0)::int AS slots_left INTO c FROM slots_of(b) x;
  UPDATE barrier x SET failed = c.bad, skipped = c.skipped, slots_left = CASE WHEN x.slots > 0 THEN c.slots_left ELSE 0 END,
    succeeded = CASE WHEN x.slots = 0 OR c.slots_left = 0 THEN c.ok ELSE 0 END,
    need = CASE WHEN x.share IS NULL THEN x.need ELSE needed(x.share, x.expected - c.skipped) END
  WHERE x.barrier_id = p_barrier RETURNING * INTO b;
  SELECT jsonb_build_object('counts', jsonb_build_array(b.succeeded, b.failed, b.skipped), 'slots_left', b.slots_left, 'left', coalesce(sum(l.remaining), 0)) INTO v_after FROM barrier_slot l WHERE l.barrier_id = p_barrier;
  IF v_before = v_after THEN RETURN NULL; END IF;
  SELECT * INTO d FROM decide_barrier(b, '{}');
  IF d.o_ready IS NOT NULL THEN PERFORM make_ready(ARRAY[d.o_ready]); END IF;
  PERFORM spread(d.o_arrivals, d.o_skipped, d.o_after);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (b.tenant_id, 'maintenance', 'barrier.recount', p_barrier::text, jsonb_build_object('before', v_before, 'after', v_after));
  RETURN jsonb_build_object('before', v_before, 'after', v_after);
END $$;

-- purpose: keep what a stale writer tried: it changed nothing, and it is on record; who only asks again, since the answer got lost, is told that it was done
-- transition: none
-- fenced by: nothing: this is what happens to those who are not the holder
-- locks: none
CREATE FUNCTION refuse(p_worker uuid, p_steps uuid[], p_fences bigint[], p_done uuid[], p_attempted text, p_applied text) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_again uuid[];
  v_stale uuid[];
BEGIN
  SELECT array_agg(x.u) FILTER (WHERE x.applied), array_agg(x.u) FILTER (WHERE NOT x.applied) INTO v_again, v_stale
  FROM (SELECT u, EXISTS (SELECT FROM attempt a WHERE a.step_id = u AND a.fence = p_fences[array_position(p_steps, u)] AND a.worker_id = p_worker AND a.state = p_applied) AS applied
        FROM unnest(p_steps) u WHERE u <> ALL (coalesce(p_done, '{}'))) x;
  INSERT INTO refused_write (tenant_id, run_id, step_id, worker_id, fence, current_fence, attempted, why)
  SELECT s.tenant_id, s.run_id, s.step_id, p_worker, p_fences[array_position(p_steps, s.step_id)], s.fence, p_attempted,
         CASE WHEN s.fence <> p_fences[array_position(p_steps, s.step_id)] THEN format('superseded: fence %s, current %s', p_fences[array_position(p_steps, s.step_id)], s.fence)
              ELSE format('the step is %s', s.state) END
  FROM step s WHERE s.step_id = ANY (v_stale);
  RETURN coalesce(v_again, '{}');
END $$;

-- purpose: make a workflow version known; the same version with another graph is refused
-- transition: none
-- fenced by: the key (name, version)
-- locks: only a new row
CREATE FUNCTION register_workflow(p_name text, p_version int, p_graph jsonb, p_digest bytea) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO workflow (name, version, graph, digest) VALUES (p_name, p_version, p_graph, p_digest) ON CONFLICT DO NOTHING;
  IF FOUND THEN RETURN true; END IF;
  IF (SELECT w.digest FROM workflow w WHERE w.name = p_name AND w.version = p_version) <> p_digest THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-VER-01 workflow %s version %s is registered with another graph', p_name, p_version),
      DETAIL = 'A run keeps the version that it started with, so a version never changes.', HINT = format('give the changed workflow version=%s', p_version + 1);
  END IF;
  RETURN false;
END $$;

-- purpose: a message that can't be published at all (too large, a topic that is not allowed) must not stop those behind it
-- transition: none
-- fenced by: nothing: parking twice is harmless
-- locks: the outbox row
CREATE FUNCTION relay_park(p_id bigint, p_code text, p_reason text) RETURNS boolean LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  WITH d AS (DELETE FROM outbox o WHERE o.id = p_id RETURNING o.*)
  INSERT INTO dead_letter (tenant_id, topic, partition, "offset", key, value, headers, code, reason)
  SELECT d.tenant_id, 'outbox:' || d.topic, d.part, d.id, convert_to(d.key, 'UTF8'), convert_to(d.body, 'UTF8'), (SELECT jsonb_agg(jsonb_build_array(h.name, h.text) ORDER BY h.n) FROM (VALUES
           (1, 'ce_id', d.message_id::text), (2, 'ce_type', d.type), (3, 'ce_time', to_char(d.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
           (4, 'ce_correlationid', d.correlation_id), (5, 'ce_causationid', d.causation_id), (6, 'ce_sequence', d.sequence::text)) h(n, name, text) WHERE h.text IS NOT NULL), p_code, p_reason FROM d
  RETURNING true
$$;

-- purpose: the next messages of a relay's partitions: all visible rows by id, no cursor, so that none is ever skipped
-- transition: none
-- fenced by: the partition's owner; not its fence, since what is sent twice is harmless: relay_sent compares that before anything is deleted
-- locks: none
CREATE FUNCTION relay_read(p_relay uuid, p_parts int[], p_limit int) RETURNS TABLE (id bigint, part int, tenant_id uuid, message_id uuid, topic text, key text, type text, correlation_id text, causation_id text, sequence bigint, at timestamptz, body text)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.id, o.part::int, o.tenant_id, o.message_id, o.topic, o.key, o.type, o.correlation_id, o.causation_id, o.sequence, o.at, o.body
  FROM unnest(p_parts) u(part), LATERAL (SELECT x.* FROM outbox x WHERE x.part = u.part ORDER BY x.id LIMIT p_limit) o
  WHERE (SELECT p.owner = p_relay FROM outbox_partition p WHERE p.part = u.part)
$$;

-- purpose: delete what the broker acknowledged; a relay that lost its partition meanwhile deletes nothing, its messages are sent once more
-- transition: none
-- fenced by: the partition's owner and fence
-- locks: the partitions for share, then the rows
CREATE FUNCTION relay_sent(p_relay uuid, p_parts int[], p_fences bigint[], p_ids bigint[]) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_mine int[];
  v_n int;
BEGIN
  SELECT array_agg(x.part) INTO v_mine FROM (SELECT p.part::int AS part FROM outbox_partition p WHERE p.part = ANY (p_parts) AND p.owner = p_relay AND p.fence = p_fences[array_position(p_parts, p.part::int)] ORDER BY p.part FOR SHARE) x;
  DELETE FROM outbox o WHERE o.id = ANY (p_ids) AND o.part = ANY (v_mine);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: keep a relay's presence and partitions: claim what nobody holds up to a fair share, give up what is above it
-- transition: none
-- fenced by: each claim raises the partition's fence
-- locks: partition rows (skipping locked ones)
CREATE FUNCTION relay_tick(p_relay uuid, p_name text, p_ttl_ms int) RETURNS TABLE (part int, fence bigint) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock();
  v_share int;
BEGIN
  INSERT INTO relay AS r (relay_id, name, seen_at) VALUES (p_relay, p_name, v_now) ON CONFLICT (relay_id) DO UPDATE SET seen_at = v_now;
  DELETE FROM relay r WHERE r.seen_at < v_now - p_ttl_ms * interval '2 ms';
  v_share := ceil(8::numeric / greatest((SELECT count(*) FROM relay), 1));
  UPDATE outbox_partition p SET lease_until = v_now + p_ttl_ms * interval '1 ms'
  WHERE p.part IN (SELECT x.part FROM outbox_partition x WHERE x.owner = p_relay AND x.lease_until >= v_now ORDER BY x.part LIMIT v_share FOR NO KEY UPDATE SKIP LOCKED);
  UPDATE outbox_partition p SET owner = NULL WHERE p.part IN (SELECT x.part FROM outbox_partition x WHERE x.owner = p_relay ORDER BY x.part OFFSET v_share FOR NO KEY UPDATE SKIP LOCKED);
  UPDATE outbox_partition p SET owner = p_relay, fence = p.fence + 1, lease_until = v_now + p_ttl_ms * interval '1 ms'
  WHERE p.part IN (SELECT x.part FROM outbox_partition x WHERE x.owner IS NULL OR x.lease_until < v_now ORDER BY x.part
    LIMIT greatest(v_share - (SELECT count(*) FROM outbox_partition y WHERE y.owner = p_relay AND y.lease_until >= v_now), 0) FOR NO KEY UPDATE SKIP LOCKED);
  RETURN QUERY SELECT p.part::int, p.fence FROM outbox_partition p WHERE p.owner = p_relay ORDER BY p.part;
END $$;

-- purpose: open a barrier: the release row makes it once, the step it holds waits for one thing less
-- transition: barrier waiting -> released; held step pending -> ready, or pending -> waiting for a fan-out, which the planner expands
-- fenced by: the release row's primary key
-- locks: the caller holds the barrier; then the held step
CREATE FUNCTION release_barrier(b barrier, OUT o_ready uuid, OUT o_after aftermath[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_counts jsonb := jsonb_build_object('rule', b.rule, 'expected', b.expected, 'succeeded', b.succeeded, 'failed', b.failed, 'skipped', b.skipped);
  s step;
BEGIN
  o_after := '{}';
  INSERT INTO barrier_release (tenant_id, barrier_id, included, failed, skipped, at) VALUES (b.tenant_id, b.barrier_id, b.succeeded, b.failed, b.skipped, v_now);
  UPDATE barrier x SET state = 'released', version = x.version + 1, released_at = v_now WHERE x.barrier_id = b.barrier_id;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body) VALUES (b.tenant_id, b.run_id, 'BarrierReleased', b.version + 1, v_now, v_counts || jsonb_build_object('barrier', b.barrier_id));
  IF b.kind = 'gather' THEN
    DELETE FROM timer t WHERE t.target_id = b.barrier_id AND b.deadline_at IS NOT NULL;
    IF b.step_id IS NOT NULL THEN
      o_after := ARRAY[ROW(b.run_id, 0, NULL, 'BarrierReleased', v_counts || jsonb_build_object('barrier_id', b.barrier_id, 'step_id', b.step_id, 'node', b.node))::aftermath];
    END IF;
  END IF;
  UPDATE step x SET waits = x.waits - 1, updated_at = v_now, version = x.version + CASE WHEN x.waits = 1 THEN 1 ELSE 0 END,
    state = CASE WHEN x.waits > 1 THEN 'pending' WHEN x.kind = 'fan' THEN 'waiting' ELSE 'ready' END,
    expires_at = CASE WHEN x.waits = 1 THEN v_now + x.total_ms * interval '1 ms' END
  WHERE x.step_id = b.step_id AND x.state = 'pending' RETURNING * INTO s;
  IF NOT FOUND OR s.state = 'pending' THEN RETURN; END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at) VALUES (s.tenant_id, s.run_id, s.step_id, CASE s.state WHEN 'ready' THEN 'StepReady' ELSE 'FanOpened' END, s.version, v_now);
  IF s.state = 'ready' THEN o_ready := s.step_id; ELSE PERFORM ask_to_expand(s); END IF;
END $$;

-- purpose: a parked message could not be sent after all: it may be redriven later
-- transition: none
-- fenced by: nothing
-- locks: the letter's row
CREATE FUNCTION release_redrive(p_id uuid) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE dead_letter SET redriven_at = NULL WHERE dead_letter_id = p_id
$$;

-- purpose: remove versions whose task has lost its payloads, unless they are pinned; a part at a time, since each takes a lock
-- transition: artifact_version available -> deleted
-- fenced by: each version's state and pin
-- locks: versions by id, then objects by hash
CREATE FUNCTION remove_artifacts(p_limit int) RETURNS int LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT retire_versions(ARRAY(SELECT v.version_id FROM artifact_version v WHERE v.outlives AND v.pinned_at IS NULL AND v.state = 'available' ORDER BY v.version_id LIMIT p_limit), 'retention', 'its time was over')
$$;

-- purpose: remove stored values that nothing names any more; one that was stored within the last day may be about to be named
-- transition: none
-- fenced by: the rows that name it
-- locks: the blobs' rows
CREATE FUNCTION remove_blobs(p_blobs bytea[]) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM blob b WHERE b.sha256 = ANY (p_blobs) AND b.created_at < clock() - interval '1 day'
    AND NOT EXISTS (SELECT FROM result x WHERE x.blob = b.sha256 AND x.tenant_id = b.tenant_id)
    AND NOT EXISTS (SELECT FROM operation x WHERE x.payload_blob = b.sha256 AND x.tenant_id = b.tenant_id)
    AND NOT EXISTS (SELECT FROM step x WHERE x.input_blob = b.sha256 AND x.tenant_id = b.tenant_id)
    AND NOT EXISTS (SELECT FROM task x WHERE x.input_blob = b.sha256 AND x.tenant_id = b.tenant_id);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: remove parked messages that are too old, and of each owner (a tenant, or nobody) the oldest beyond so many rows or bytes
-- transition: none
-- fenced by: nothing: a redrive that runs goes on with what is left
-- locks: the rows (skipping locked ones: somebody sends them again)
CREATE FUNCTION remove_dead_letters(p_older interval, p_rows int, p_bytes bigint, p_limit int) RETURNS TABLE (expired int, crowded int) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_before timestamptz := clock() - p_older;
BEGIN
  RETURN QUERY
  WITH sized AS (
    SELECT d.dead_letter_id, d.at, row_number() OVER newest AS place,
      sum(coalesce(octet_length(d.key), 0) + coalesce(octet_length(d.value), 0) + pg_column_size(d.headers) + octet_length(d.reason)) OVER newest AS bytes
    FROM dead_letter d WINDOW newest AS (PARTITION BY d.tenant_id ORDER BY d.dead_letter_id DESC ROWS UNBOUNDED PRECEDING)
  ), gone AS (
    DELETE FROM dead_letter x WHERE x.dead_letter_id IN (
      SELECT y.dead_letter_id FROM dead_letter y JOIN sized s USING (dead_letter_id) WHERE s.at < v_before OR s.place > p_rows OR s.bytes > p_bytes
      ORDER BY y.dead_letter_id LIMIT p_limit FOR UPDATE OF y SKIP LOCKED)
    RETURNING x.at < v_before AS old
  )
  SELECT (count(*) FILTER (WHERE g.old))::int, (count(*) FILTER (WHERE NOT g.old))::int FROM gone g;
END $$;

-- purpose: forget groups of errors that have not been seen for so long; their members went with the history of their tasks
-- transition: none; they go
-- fenced by: nothing
-- locks: the rows (skipping locked ones)
CREATE FUNCTION remove_error_groups(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM error_group g WHERE (g.group_id, g.tenant_id) IN (
    SELECT x.group_id, x.tenant_id FROM error_group x WHERE x.last_at < clock() - p_older ORDER BY x.last_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: remove tasks that ended so long ago, with their runs, steps, attempts and joins; their payloads went before, their events go with their month
-- transition: none
-- fenced by: the task's state, looked at under its lock, its payload being gone, and no version of it being left
-- locks: tasks (skipping locked ones), then what is theirs
CREATE FUNCTION remove_history(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_tasks uuid[] := ARRAY(SELECT t.task_id FROM task t WHERE t.ended_at < clock() - p_older AND t.payload_removed_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM artifact_version v WHERE v.task_id = t.task_id AND v.state <> 'deleted') ORDER BY t.ended_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  v_runs uuid[] := ARRAY(SELECT r.run_id FROM run r WHERE r.task_id = ANY (v_tasks));
  v_steps uuid[] := ARRAY(SELECT s.step_id FROM step s WHERE s.run_id = ANY (v_runs));
  v_barriers uuid[] := ARRAY(SELECT b.barrier_id FROM barrier b WHERE b.run_id = ANY (v_runs));
  v_operations uuid[];
  v_approvals uuid[];
BEGIN
  IF v_tasks = '{}' THEN RETURN 0; END IF;
  DELETE FROM timer x WHERE x.target_id = ANY (v_steps || v_barriers || v_tasks);
  DELETE FROM attempt x WHERE x.step_id = ANY (v_steps);
  DELETE FROM barrier_slot x WHERE x.barrier_id = ANY (v_barriers);
  DELETE FROM artifact_version x WHERE x.task_id = ANY (v_tasks);
  DELETE FROM artifact x WHERE x.task_id = ANY (v_tasks);
  DELETE FROM step x WHERE x.step_id = ANY (v_steps);
  DELETE FROM barrier x WHERE x.barrier_id = ANY (v_barriers);
  -- what only ever grows goes after what it belongs to: until then its guard refuses
  DELETE FROM barrier_release x WHERE x.barrier_id = ANY (v_barriers);
  DELETE FROM run x WHERE x.run_id = ANY (v_runs);
  WITH o AS (DELETE FROM operation x WHERE x.task_id = ANY (v_tasks) RETURNING x.operation_id) SELECT array_agg(o.operation_id) INTO v_operations FROM o;
  DELETE FROM operation_probe x WHERE x.operation_id = ANY (v_operations);
  WITH a AS (DELETE FROM approval x WHERE x.task_id = ANY (v_tasks) RETURNING x.approval_id) SELECT array_agg(a.approval_id) INTO v_approvals FROM a;
  DELETE FROM approval_vote x WHERE x.approval_id = ANY (v_approvals);
  DELETE FROM refused_write x WHERE x.run_id = ANY (v_runs);
  DELETE FROM error_member x WHERE x.run_id = ANY (v_runs);
  DELETE FROM budget x WHERE x.task_id = ANY (v_tasks);
  DELETE FROM task x WHERE x.task_id = ANY (v_tasks);
  DELETE FROM spending x WHERE x.task_id = ANY (v_tasks);
  RETURN cardinality(v_tasks);
END $$;

-- purpose: remove stored values that a process put away and never named, since it died or was refused
-- transition: none
-- fenced by: the rows that name them, and a day of grace
-- locks: the blobs' rows
CREATE FUNCTION remove_orphans(p_limit int) RETURNS int LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT remove_blobs(ARRAY(
    SELECT b.sha256 FROM blob b WHERE b.created_at < (SELECT clock()) - interval '1 day'
      AND NOT EXISTS (SELECT FROM result x WHERE x.blob = b.sha256 AND x.tenant_id = b.tenant_id)
      AND NOT EXISTS (SELECT FROM operation x WHERE x.payload_blob = b.sha256 AND x.tenant_id = b.tenant_id)
      AND NOT EXISTS (SELECT FROM step x WHERE x.input_blob = b.sha256 AND x.tenant_id = b.tenant_id)
      AND NOT EXISTS (SELECT FROM task x WHERE x.input_blob = b.sha256 AND x.tenant_id = b.tenant_id)
    LIMIT p_limit))
$$;

-- purpose: take inputs and results away from tasks that ended so long ago; states, attempts and events stay
-- transition: none
-- fenced by: the task's state, looked at under its lock: a task that is retried meanwhile keeps everything
-- locks: tasks (skipping locked ones), then what is theirs
CREATE FUNCTION remove_payloads(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_tasks uuid[] := ARRAY(SELECT t.task_id FROM task t WHERE t.ended_at < v_now - p_older AND t.payload_removed_at IS NULL ORDER BY t.ended_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
  v_runs uuid[] := ARRAY(SELECT r.run_id FROM run r WHERE r.task_id = ANY (v_tasks));
  v_steps uuid[] := ARRAY(SELECT s.step_id FROM step s WHERE s.run_id = ANY (v_runs));
  v_blobs bytea[];
BEGIN
  IF v_tasks = '{}' THEN RETURN 0; END IF;
  v_blobs := ARRAY(
    SELECT x.blob FROM result x WHERE x.step_id = ANY (v_steps) AND x.blob IS NOT NULL
    UNION SELECT x.input_blob FROM step x WHERE x.step_id = ANY (v_steps) AND x.input_blob IS NOT NULL
    UNION SELECT x.payload_blob FROM operation x WHERE x.task_id = ANY (v_tasks) AND x.payload_blob IS NOT NULL
    UNION SELECT x.input_blob FROM task x WHERE x.task_id = ANY (v_tasks) AND x.input_blob IS NOT NULL);
  DELETE FROM result x WHERE x.step_id = ANY (v_steps);
  UPDATE step x SET input = NULL, input_blob = NULL WHERE x.step_id = ANY (v_steps) AND (x.input IS NOT NULL OR x.input_blob IS NOT NULL);
  UPDATE operation x SET payload = NULL, payload_blob = NULL, receipt = NULL WHERE x.task_id = ANY (v_tasks);
  UPDATE approval x SET payload = NULL, summary = NULL WHERE x.task_id = ANY (v_tasks) AND (x.payload IS NOT NULL OR x.summary IS NOT NULL);
  UPDATE task x SET input = NULL, input_blob = NULL, payload_removed_at = v_now WHERE x.task_id = ANY (v_tasks);
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor) SELECT r.tenant_id, r.run_id, 'PayloadRemoved', r.version, v_now, 'retention' FROM run r WHERE r.run_id = ANY (v_runs);
  PERFORM remove_blobs(v_blobs);
  -- artifacts follow in parts, a task may have any number of them; what is pinned stays, and goes once it is pinned no longer
  UPDATE artifact_version v SET outlives = true WHERE v.task_id = ANY (v_tasks) AND v.state = 'available';
  RETURN cardinality(v_tasks);
END $$;

-- purpose: remove samples that were kept for their time: those of ten seconds once they are folded, and spans of five minutes
-- transition: none
-- fenced by: nothing
-- locks: the samples' rows (skipping locked ones)
CREATE FUNCTION remove_samples(p_short interval, p_long interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_folded timestamptz := coalesce((SELECT max(x.slot) + interval '300 s' FROM sample x WHERE x.tenant_id = '00000000-0000-0000-0000-000000000000' AND x.seconds = 300), '-infinity');
  v_n int;
BEGIN
  DELETE FROM sample s WHERE (s.tenant_id, s.seconds, s.slot) IN (
    SELECT x.tenant_id, x.seconds, x.slot FROM sample x
    WHERE x.seconds = 10 AND x.slot < least(v_now - p_short, v_folded) OR x.seconds = 300 AND x.slot < v_now - p_long
    ORDER BY x.seconds, x.slot LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: remove a saved view: one's own, or with p_any a shared one of somebody else; false when there is none
-- transition: none
-- fenced by: its owner
-- locks: the view; the audit chain last
CREATE FUNCTION remove_view(p_tenant uuid, p_view uuid, p_actor text, p_any boolean) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_name text;
BEGIN
  DELETE FROM saved_view v WHERE v.view_id = p_view AND v.tenant_id = p_tenant AND (v.owner = p_actor OR (p_any AND v.shared)) RETURNING v.name INTO v_name;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'view.remove', p_view::text, jsonb_build_object('name', v_name));
  RETURN true;
END $$;

-- purpose: remove a webhook with its deliveries; the audit log keeps that it was there; false when there is none
-- transition: none
-- fenced by: nothing
-- locks: the webhook, its deliveries; the audit chain last
CREATE FUNCTION remove_webhook(p_tenant uuid, p_webhook uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_url text;
BEGIN
  DELETE FROM webhook w WHERE w.webhook_id = p_webhook AND w.tenant_id = p_tenant RETURNING w.url INTO v_url;
  IF NOT FOUND THEN RETURN false; END IF;
  DELETE FROM webhook_delivery d WHERE d.webhook_id = p_webhook AND d.tenant_id = p_tenant;
  PERFORM note_act(p_tenant, p_actor, 'webhook.remove', p_webhook::text, jsonb_build_object('url', v_url));
  RETURN true;
END $$;

-- purpose: forget workers that ended, or that fell silent, so long ago
-- transition: none
-- fenced by: nothing: presence is information, and one that reports again is there again
-- locks: the workers' rows (skipping locked ones)
CREATE FUNCTION remove_workers(p_gone interval, p_silent interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int;
BEGIN
  DELETE FROM worker w WHERE w.worker_id IN (
    SELECT x.worker_id FROM worker x WHERE x.seen_at < v_now - CASE x.state WHEN 'gone' THEN p_gone ELSE p_silent END
    ORDER BY x.worker_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: what is left of a version whose content was removed: what it was, when it went, and at whose wish
-- transition: none
-- fenced by: nothing: a version that was deleted never comes back
-- locks: none
CREATE FUNCTION removed_version(p_tenant uuid, p_version uuid) RETURNS TABLE (version_id uuid, task_id uuid, name text, number int, sha256 bytea, size bigint, media_type text, deleted_at timestamptz, deleted_by text, why text)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT v.version_id, v.task_id, a.name, v.number, v.sha256, v.size, v.media_type, v.deleted_at, e.actor, e.body->>'why'
  FROM artifact_version v JOIN artifact a ON a.artifact_id = v.artifact_id
  LEFT JOIN LATERAL (SELECT x.actor, x.body FROM event x WHERE x.run_id = v.run_id AND x.kind = 'ArtifactDeleted' AND x.body->>'artifact' = v.version_id::text LIMIT 1) e ON true
  WHERE v.version_id = p_version AND v.tenant_id = p_tenant AND v.state = 'deleted' AND v.number IS NOT NULL
$$;

-- purpose: the heartbeat of one worker: renew all its leases, record which steps have started, learn which are lost or cancelled
-- transition: step leased -> running; attempt granted -> running
-- fenced by: each step's own fence
-- locks: steps by id (skipping what is being settled at this moment), never the run
CREATE FUNCTION renew(p_worker uuid, p_steps uuid[], p_fences bigint[], p_begun boolean[], p_progress jsonb[], p_ttl_ms bigint) RETURNS TABLE (step_id uuid, verdict text)
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_held uuid[];
  v_lost uuid[];
BEGIN
  SELECT array_agg(x.step_id) INTO v_held FROM (
    SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND s.state IN ('leased', 'running', 'reconciling') AND s.fence = p_fences[array_position(p_steps, s.step_id)]
    ORDER BY s.step_id FOR NO KEY UPDATE SKIP LOCKED) x;
  v_now := clock();
  WITH u AS (
    UPDATE step s SET state = 'running', version = s.version + 1, proof = s.fence, updated_at = v_now
    WHERE s.step_id = ANY (v_held) AND s.state = 'leased' AND p_begun[array_position(p_steps, s.step_id)]
    RETURNING s.tenant_id, s.run_id, s.step_id, s.version, s.fence
  ) INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, at) SELECT u.tenant_id, u.run_id, u.step_id, 'StepStarted', u.version, u.fence, v_now FROM u;
  UPDATE attempt t SET started_at = CASE WHEN p_begun[array_position(p_steps, t.step_id)] THEN coalesce(t.started_at, v_now) END,
    state = CASE WHEN p_begun[array_position(p_steps, t.step_id)] THEN 'running' ELSE t.state END,
    deadline_at = CASE WHEN p_begun[array_position(p_steps, t.step_id)] THEN coalesce(t.deadline_at, (SELECT least(v_now + s.timeout_ms * interval '1 ms', s.expires_at) FROM step s WHERE s.step_id = t.step_id)) END,
    progress = coalesce(p_progress[array_position(p_steps, t.step_id)], t.progress),
    lease_until = greatest(t.lease_until, least(v_now + greatest((SELECT s.lease_ms FROM step s WHERE s.step_id = t.step_id), p_ttl_ms) * interval '1 ms', t.deadline_at + interval '2 s'))
  WHERE t.step_id = ANY (v_held) AND t.fence = p_fences[array_position(p_steps, t.step_id)] AND t.ended_at IS NULL;
  -- a heartbeat of an attempt that was taken away is a stale write as any other; one that crosses with the attempt's own end is not
  v_lost := ARRAY(SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND (s.fence <> p_fences[array_position(p_steps, s.step_id)] OR s.state NOT IN ('leased', 'running', 'reconciling'))
    AND NOT EXISTS (SELECT FROM attempt t WHERE t.step_id = s.step_id AND t.fence = p_fences[array_position(p_steps, s.step_id)] AND t.worker_id = p_worker AND t.state IN ('succeeded', 'failed', 'released')));
  IF v_lost <> '{}' THEN PERFORM refuse(p_worker, v_lost, ARRAY(SELECT p_fences[array_position(p_steps, u)] FROM unnest(v_lost) u), '{}', 'renew', 'none'); END IF;
  RETURN QUERY SELECT s.step_id,
    CASE WHEN s.fence <> p_fences[array_position(p_steps, s.step_id)] OR s.state NOT IN ('leased', 'running', 'reconciling') THEN 'lost'
         WHEN s.state <> 'reconciling' AND s.kind <> 'undo' AND (SELECT r.state = 'cancelling' FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id) THEN 'cancel'
         WHEN s.step_id = ANY (v_held) THEN 'ok' ELSE 'busy' END
  FROM step s WHERE s.step_id = ANY (p_steps);
END $$;

-- purpose: reopen failed steps while their run is live and their branch holds: one more attempt each, with the same or edited input (for a child its item, for any other step the arguments that it names)
-- transition: step failed -> ready
-- fenced by: the step's state, its run being live, and a join over its fan-out that still waits, looked at under the join's lock
-- locks: steps by id, then the joins over their fan-outs and the barriers they feed, the younger first; the audit chain last
CREATE FUNCTION reopen_steps(p_tenant uuid, p_steps uuid[], p_input jsonb, p_reason text, p_actor text) RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_open uuid[];
  v_done uuid[];
BEGIN
  v_open := ARRAY(SELECT s.step_id FROM step s WHERE s.step_id = ANY (p_steps) AND s.tenant_id = p_tenant AND s.state = 'failed' AND s.holds
    -- a slot takes nothing back; beside a join that holds nothing counts in slots
    AND NOT EXISTS (SELECT FROM barrier b WHERE b.barrier_id = ANY (s.feeds) AND b.slots > 0) ORDER BY s.step_id FOR NO KEY UPDATE);
  -- a join that is decided at this moment is decided with these steps as failed
  PERFORM FROM barrier b WHERE b.barrier_id = ANY (ARRAY(SELECT b.barrier_id FROM step s, barrier b WHERE s.step_id = ANY (v_open) AND (b.fan_id = s.fan_id OR b.barrier_id = ANY (s.feeds)))) ORDER BY b.barrier_id DESC FOR NO KEY UPDATE;
  v_now := clock();
  WITH u AS (
    UPDATE step s SET state = 'ready', version = s.version + 1, updated_at = v_now, max_attempts = greatest(s.max_attempts, s.attempts + 1),
      input = CASE WHEN p_input IS NULL THEN s.input WHEN s.node = (SELECT f.node FROM step f WHERE f.step_id = s.fan_id) THEN p_input
        -- its arguments come from other steps: what is given goes before them
        ELSE jsonb_build_object('$given', coalesce(s.input->'$given', s.input, '{}') || p_input, 'input', CASE WHEN s.input ? '$given' THEN s.input->'input' ELSE s.input END) END,
      input_blob = CASE WHEN p_input IS NULL THEN s.input_blob END, expires_at = v_now + s.total_ms * interval '1 ms',
      -- joins that opened with it as failed: their Results have it so for good, with this error
      failed_for = nullif(coalesce(s.failed_for, '{}') || coalesce((SELECT jsonb_object_agg(b.barrier_id, coalesce(error_of(s.step_id), 'null')) FROM barrier b WHERE b.barrier_id = ANY (s.feeds) AND b.kind = 'gather' AND b.state = 'released'
        AND b.barrier_id <> ALL (coalesce(s.late_for, '{}')) AND NOT coalesce(s.failed_for ? b.barrier_id::text, false)), '{}'), '{}')
    WHERE s.step_id = ANY (v_open) AND s.state = 'failed' AND (SELECT r.state IN ('created', 'running') FROM run r WHERE r.run_id = s.run_id) AND is_held(s)
    RETURNING s.tenant_id, s.step_id, s.run_id, s.version, s.feeds, s.max_attempts
  ), e AS (
    INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body)
    SELECT u.tenant_id, u.run_id, u.step_id, 'StepReopened', u.version, v_now, p_actor, jsonb_build_object('reason', p_reason, 'edited', p_input IS NOT NULL, 'max_attempts', u.max_attempts) FROM u
  ), b AS (
    -- at each of them, decided or not, it will arrive once more
    UPDATE barrier b SET failed = b.failed - x.n, closed = false FROM (SELECT f, count(*)::int AS n FROM u, unnest(u.feeds) f GROUP BY f) x WHERE b.barrier_id = x.f
  )
  SELECT array_agg(u.step_id) INTO v_done FROM u;
  IF v_done IS NULL THEN RETURN; END IF;
  PERFORM make_ready(v_done);
  INSERT INTO audit (tenant_id, actor, action, target, detail) SELECT p_tenant, p_actor, 'step.reopen', d::text, jsonb_build_object('reason', p_reason) FROM unnest(v_done) d;
  RETURN QUERY SELECT unnest(v_done);
END $$;

-- purpose: offer all ready steps of a task again, at once: the answer to offers that a broker has lost
-- transition: none: readiness is the fact, an offer only a hint, and of two offers of a step one leases it
-- fenced by: nothing
-- locks: ready rows (skipping locked ones: they are being leased or offered); the audit chain last
CREATE FUNCTION republish_task(p_tenant uuid, p_task uuid, p_actor text) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  IF NOT EXISTS (SELECT FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  UPDATE ready r SET offered_at = NULL WHERE r.step_id = ANY (ARRAY(SELECT y.step_id FROM ready y WHERE y.step_id = ANY (ARRAY(
    SELECT s.step_id FROM step s WHERE s.run_id = (SELECT t.run_id FROM task t WHERE t.task_id = p_task AND t.tenant_id = p_tenant) AND s.state IN ('ready', 'unknown'))) FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_n = ROW_COUNT;
  PERFORM note_act(p_tenant, p_actor, 'task.republish', p_task::text, jsonb_build_object('steps', v_n));
  RETURN v_n;
END $$;

-- purpose: somebody asks for a job in bulk; asking again with the same key is the same job
-- transition: maintenance job: born due
-- fenced by: the primary key
-- locks: only new rows; the audit chain last
CREATE FUNCTION request_maintenance(p_tenant uuid, p_kind text, p_key text, p_request jsonb, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO maintenance_job (kind, key, tenant_id, request) VALUES (p_kind, p_key, p_tenant, p_request) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'maintenance.' || p_kind, p_key, p_request);
  RETURN true;
END $$;

-- purpose: send a delivery again, whether it was sent, given up, or waits for its next try; false when there is none
-- transition: webhook delivery sent|failed|due -> due
-- fenced by: the fence rises, so that a try that is under way decides nothing any more
-- locks: the delivery; the audit chain last
CREATE FUNCTION resend_delivery(p_tenant uuid, p_delivery uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  d webhook_delivery;
BEGIN
  UPDATE webhook_delivery x SET state = 'due', ended_at = NULL, due_at = clock(), give_up_at = clock() + interval '3 days', fence = x.fence + 1
  WHERE x.delivery_id = p_delivery AND x.tenant_id = p_tenant RETURNING * INTO d;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM note_act(p_tenant, p_actor, 'webhook.resend', p_delivery::text, jsonb_build_object('webhook', d.webhook_id, 'type', d.type, 'subject', d.subject));
  RETURN true;
END $$;

-- purpose: how many children a join has in each state, as it stood when its barrier opened
-- transition: none
-- fenced by: the joining step's fence
-- locks: none
CREATE FUNCTION results_counts(p_step uuid, p_fence bigint, p_fan uuid) RETURNS TABLE (expected int, succeeded int, failed int, skipped int)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT b.expected, r.included, r.failed, r.skipped FROM step j, gather_of(j, p_fan) b, barrier_release r
  WHERE j.step_id = p_step AND j.fence = p_fence AND r.barrier_id = b.barrier_id AND r.tenant_id = b.tenant_id
$$;

-- purpose: the children that a join reads, in order of their index, a page at a time; what settled after it had opened is `late` for good, what it opened with as failed stays so when it is reopened
-- transition: none
-- fenced by: the joining step's fence: reading is granted to the holder
-- locks: none
CREATE FUNCTION results_page(p_step uuid, p_fence bigint, p_fan uuid, p_node text, p_after int, p_limit int) RETURNS TABLE (idx int, state text, body jsonb, blob bytea, error jsonb)
LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT c.idx, CASE WHEN c.was_failed IS NOT NULL THEN 'failed' WHEN c.late THEN 'late' WHEN c.spoiled THEN 'failed' ELSE c.state END, CASE WHEN NOT c.late AND c.was_failed IS NULL THEN x.body END, CASE WHEN NOT c.late AND c.was_failed IS NULL THEN x.blob END,
         CASE WHEN c.was_failed IS NOT NULL THEN nullif(c.was_failed, 'null')
              WHEN c.late THEN NULL
              WHEN c.state = 'failed' THEN error_of(c.step_id)
              -- it never ran since something before it in its branch failed: that one's error, or that of an inner join
              WHEN c.spoiled THEN coalesce((SELECT error_of(s.step_id) FROM step s WHERE s.fan_id = p_fan AND s.idx = c.idx AND s.tenant_id = c.tenant_id AND s.state = 'failed' ORDER BY s.updated_at LIMIT 1),
                jsonb_build_object('code', 'E-JOIN-20', 'what', 'a step before it in its branch failed')) END
  FROM step j
  JOIN LATERAL (SELECT s.step_id, s.tenant_id, s.idx, s.state, s.spoiled, coalesce(b.barrier_id = ANY (s.late_for), false) AS late, s.failed_for -> b.barrier_id::text AS was_failed FROM step s, gather_of(j, p_fan) b
                WHERE s.fan_id = p_fan AND s.idx > p_after AND s.tenant_id = j.tenant_id AND s.kind = 'step' AND s.replaced_by IS NULL AND coalesce(s.answers, s.node) = p_node ORDER BY s.idx LIMIT p_limit) c ON true
  -- the limit keeps this one index probe a row: joined freely, all results of the database were read for each page
  LEFT JOIN LATERAL (SELECT r.body, r.blob FROM result r WHERE r.step_id = c.step_id AND r.tenant_id = c.tenant_id LIMIT 1) x ON true
  WHERE j.step_id = p_step AND j.fence = p_fence
  ORDER BY c.idx
$$;

-- purpose: let a paused queue of a tenant go on: what waited is offered again at once
-- transition: none
-- fenced by: nothing
-- locks: the advisory lock on putting aside; ready rows (skipping locked ones); the audit chain last
CREATE FUNCTION resume_queue(p_tenant uuid, p_queue text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  -- nobody puts aside what waits here from a snapshot in which it was still paused
  PERFORM pg_advisory_xact_lock(hashtextextended('put aside', 0));
  DELETE FROM queue_pause q WHERE q.queue = p_queue AND q.tenant_id = p_tenant;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE ready r SET offered_at = NULL WHERE r.step_id = ANY (ARRAY(
    SELECT x.step_id FROM ready x WHERE x.queue = p_queue AND x.offered_at > v_now AND x.tenant_id = p_tenant FOR UPDATE SKIP LOCKED));
  PERFORM note_act(p_tenant, p_actor, 'queue.resume', p_queue, '{}');
  RETURN true;
END $$;

-- purpose: end versions, and ask for their content to be removed where no other available version of the tenant has it
-- transition: artifact_version available -> deleted
-- fenced by: each version's state
-- locks: versions by id, then objects by hash
CREATE FUNCTION retire_versions(p_versions uuid[], p_actor text, p_why text) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_n int := 0;
  x record;
BEGIN
  PERFORM FROM artifact_version v WHERE v.version_id = ANY (p_versions) ORDER BY v.version_id FOR NO KEY UPDATE;
  FOR x IN
    WITH d AS (
      UPDATE artifact_version v SET state = 'deleted', version = v.version + 1, deleted_at = v_now WHERE v.version_id = ANY (p_versions) AND v.state = 'available' AND v.pinned_at IS NULL RETURNING v.*
    ), e AS (
      INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body)
      SELECT d.tenant_id, d.run_id, 'ArtifactDeleted', d.version, v_now, p_actor, jsonb_strip_nulls(jsonb_build_object('artifact', d.version_id, 'number', d.number, 'step', d.step_id, 'why', p_why)) FROM d
    )
    SELECT d.tenant_id, array_agg(d.sha256) AS hashes, count(*)::int AS n FROM d GROUP BY d.tenant_id ORDER BY d.tenant_id
  LOOP
    v_n := v_n + x.n;
    PERFORM ask_removals(x.tenant_id, x.hashes);
  END LOOP;
  RETURN v_n;
END $$;

-- purpose: a new run of a task that failed, was cancelled or rejected; it names the old run and takes over the results the plan says
-- transition: task failed|cancelled|rejected -> accepted; births: run, steps (those taken over: settled), barriers
-- fenced by: the task's state
-- locks: the task, its budget, then only new rows: nobody else knows the run yet; the audit chain last
CREATE FUNCTION retry_task(p_tenant uuid, p_task uuid, p_run uuid, p_open int, p_steps jsonb, p_barriers jsonb, p_kept jsonb, p_actor text, p_budget jsonb DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  t task;
  v_over text;
  v_budget jsonb;
  a record;
BEGIN
  SELECT * INTO t FROM task x WHERE x.task_id = p_task AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such task in this tenant'; END IF;
  IF t.state NOT IN ('failed', 'cancelled', 'rejected') THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = CASE WHEN t.ended_at IS NULL THEN format('E-TASK-07 a task that is %s is not retried', t.state) ELSE 'E-TASK-09 a completed task is not retried' END; END IF;
  IF t.payload_removed_at IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-TASK-08 the input and the results of this task were removed', DETAIL = 'They are kept for a limited time after the end of a task.', HINT = 'submit it anew';
  END IF;
  v_now := clock();
  INSERT INTO run (tenant_id, run_id, task_id, number, workflow, workflow_version, state, open, retry_of, created_at, updated_at) VALUES (p_tenant, p_run, p_task, t.runs + 1, t.workflow, t.workflow_version, 'created', p_open, t.run_id, v_now, v_now);
  UPDATE task x SET state = 'accepted', version = x.version + 1, run_id = p_run, runs = x.runs + 1, ended_at = NULL, reason = NULL, updated_at = v_now, deadline_at = NULL WHERE x.task_id = p_task;
  IF p_budget IS NOT NULL THEN PERFORM set_budget(p_tenant, p_task, p_budget); END IF;
  -- all runs of a task spend of one budget: the next one would only find it used up
  SELECT budget_text(b.unit, b.allowed, b.spent) INTO v_over FROM budget b WHERE b.task_id = p_task AND b.tenant_id = p_tenant AND b.spent > b.allowed ORDER BY b.unit LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-BUD-02 the task has spent more than its budget', DETAIL = v_over, HINT = 'retry it with a larger one';
  END IF;
  SELECT jsonb_object_agg(b.unit, b.allowed) INTO v_budget FROM budget b WHERE b.task_id = p_task AND b.tenant_id = p_tenant AND b.allowed IS NOT NULL;
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body)
  VALUES (p_tenant, p_run, 'TaskRetried', t.version + 1, v_now, p_actor, jsonb_build_object('task', p_task, 'run', t.runs + 1, 'retry_of', t.run_id, 'workflow', t.workflow, 'workflow_version', t.workflow_version, 'kept', p_kept) || CASE WHEN v_budget IS NULL THEN '{}' ELSE jsonb_build_object('budget', v_budget) END);
  PERFORM insert_plan(p_steps, p_barriers);
  SELECT * INTO a FROM adopt_steps(p_steps);
  PERFORM spread(a.o_arrivals, a.o_done, a.o_after);
  INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'task.retry', p_task::text, jsonb_strip_nulls(jsonb_build_object('run', p_run, 'budget', p_budget)));
  RETURN p_run;
END $$;

-- purpose: take an approval back: before it is decided, before it is used, or before what it was used for is sent once more
-- transition: approval requested|granted|spent -> revoked; step waiting -> succeeded
-- fenced by: the approval's state under its lock, which a dispatch takes too: one of the two comes first
-- locks: the step, the approval, then slots, barriers, held steps, runs, tasks; the audit chain last
CREATE FUNCTION revoke_approval(p_tenant uuid, p_approval uuid, p_reason text, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  a approval;
  d record;
BEGIN
  a := hold_approval(p_tenant, p_approval);
  IF a.state = 'revoked' THEN RETURN a.state; END IF;  -- asked again, since the answer got lost
  IF a.state NOT IN ('requested', 'granted', 'spent') THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-APR-01 the approval is %s', a.state); END IF;
  IF a.state = 'spent' AND (SELECT o.state NOT IN ('prepared', 'dispatched', 'unknown') FROM operation o WHERE o.operation_id = a.spent_by AND o.tenant_id = p_tenant) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-01 what it allowed has happened';
  END IF;
  SELECT * INTO d FROM end_approval(a, 'revoked', p_actor, p_reason);
  PERFORM spread(d.o_arrivals, d.o_settled, d.o_after);
  PERFORM note_act(p_tenant, p_actor, 'approval.revoke', p_approval::text, jsonb_build_object('reason', p_reason, 'was', a.state));
  RETURN 'revoked';
END $$;

-- purpose: end a key; revoking it again changes nothing; false when the tenant has no such key
-- transition: none
-- fenced by: nothing
-- locks: the key's row; the audit chain last
CREATE FUNCTION revoke_key(p_tenant uuid, p_key uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_name text;
BEGIN
  UPDATE api_key k SET revoked_at = clock() WHERE k.key_id = p_key AND k.tenant_id = p_tenant AND k.revoked_at IS NULL RETURNING k.name INTO v_name;
  IF FOUND THEN
    INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'key.revoke', v_name, jsonb_build_object('key', p_key));
    RETURN true;
  END IF;
  RETURN EXISTS (SELECT FROM api_key k WHERE k.key_id = p_key AND k.tenant_id = p_tenant);
END $$;

-- purpose: end a signing key: commands that it signs are parked from now on; false when the tenant has no such key
-- transition: none
-- fenced by: nothing
-- locks: the key's row; the audit chain last
CREATE FUNCTION revoke_signing_key(p_tenant uuid, p_key text, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE signing_key k SET revoked_at = clock() WHERE k.key_id = p_key AND k.tenant_id = p_tenant AND k.revoked_at IS NULL;
  IF FOUND THEN
    INSERT INTO audit (tenant_id, actor, action, target, detail) VALUES (p_tenant, p_actor, 'signing_key.revoke', p_key, '{}');
    RETURN true;
  END IF;
  RETURN EXISTS (SELECT FROM signing_key k WHERE k.key_id = p_key AND k.tenant_id = p_tenant);
END $$;

-- purpose: whether steps of a retried run have the results that their like had in the run before, pair by pair
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION same_values(p_tenant uuid, p_steps uuid[], p_before uuid[]) RETURNS boolean[] LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT array_agg((SELECT ROW(r.body, r.blob) FROM result r WHERE r.step_id = u.now AND r.tenant_id = p_tenant) IS NOT DISTINCT FROM (SELECT ROW(r.body, r.blob) FROM result r WHERE r.step_id = u.before AND r.tenant_id = p_tenant) ORDER BY u.n)
  FROM unnest(p_steps, p_before) WITH ORDINALITY u(now, before, n)
$$;

-- purpose: what happened in a span of time, by tenant: counts of events by kind, of queues what became ready and what was leased, and refused writes
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION sample_counts(p_from timestamptz, p_to timestamptz) RETURNS TABLE (tenant_id uuid, name text, value float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH happened AS MATERIALIZED (
    SELECT e.tenant_id, e.kind, x.queue, count(*) AS n
    FROM event e
    -- a scalar subquery is one index probe a row, and only for what is told by queue
    CROSS JOIN LATERAL (SELECT CASE WHEN e.kind IN ('StepLeased', 'StepReady', 'StepReleased', 'StepLost', 'StepReopened', 'StepSettled') THEN (SELECT s.queue FROM step s WHERE s.step_id = e.step_id AND s.tenant_id = e.tenant_id) END AS queue) x
    WHERE e.at >= p_from AND e.at < p_to
    GROUP BY 1, 2, 3
  ), named(kind, name) AS (VALUES
    ('TaskAccepted', 'tasks_submitted'), ('TaskCompleted', 'tasks_completed'), ('TaskFailed', 'tasks_failed'), ('TaskCancelled', 'tasks_cancelled'), ('TaskRejected', 'tasks_rejected'),
    ('StepLeased', 'steps_leased'), ('StepSucceeded', 'steps_succeeded'), ('StepFailed', 'steps_failed'), ('StepRetryScheduled', 'steps_failed'), ('StepRetryScheduled', 'steps_retried'), ('StepLost', 'leases_reaped'),
    ('StepReady', 'steps_made_ready'), ('StepReleased', 'steps_made_ready'), ('StepLost', 'steps_made_ready'), ('StepReopened', 'steps_made_ready'), ('StepSettled', 'steps_made_ready'),
    ('OperationConfirmed', 'operations_confirmed'), ('OperationUnknown', 'operations_unknown'))
  SELECT h.tenant_id, d.name, sum(h.n)::float8 FROM happened h JOIN named d ON d.kind = h.kind GROUP BY 1, 2
  UNION ALL
  SELECT h.tenant_id, d.name || ':' || h.queue, sum(h.n)::float8 FROM happened h JOIN named d ON d.kind = h.kind WHERE d.name IN ('steps_leased', 'steps_made_ready') AND h.queue IS NOT NULL GROUP BY 1, 2
  UNION ALL
  SELECT w.tenant_id, 'steps_refused', count(*)::float8 FROM refused_write w WHERE w.at >= p_from AND w.at < p_to GROUP BY 1
$$;

-- purpose: how long attempts that ended in a span of time waited for their grant and ran, by tenant: median and 95th percentile of some hundred of them
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION sample_latencies(p_from timestamptz, p_to timestamptz, p_most int) RETURNS TABLE (tenant_id uuid, name text, value float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH ended AS MATERIALIZED (
    SELECT x.* FROM (
      -- in an order that has nothing to do with time: the first hundreds of a busy span are not like the rest
      SELECT e.tenant_id, e.step_id, e.fence, row_number() OVER (PARTITION BY e.tenant_id ORDER BY hashint8(e.event_id)) AS n
      FROM event e WHERE e.at >= p_from AND e.at < p_to AND e.kind IN ('StepSucceeded', 'StepFailed', 'StepRetryScheduled') AND e.fence IS NOT NULL) x
    WHERE x.n <= p_most
  ), took AS MATERIALIZED (
    SELECT e.tenant_id, extract(epoch FROM a.granted_at - a.ready_at)::float8 AS waited, extract(epoch FROM a.ended_at - a.started_at)::float8 AS ran
    FROM ended e CROSS JOIN LATERAL (SELECT t.* FROM attempt t WHERE t.step_id = e.step_id AND t.fence = e.fence AND t.tenant_id = e.tenant_id) a
  ), both_ends AS (
    SELECT t.tenant_id, percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY t.waited) AS waited, percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY t.ran) AS ran FROM took t GROUP BY 1
  )
  SELECT b.tenant_id, x.name, x.value FROM both_ends b, LATERAL (VALUES
    ('queue_wait_seconds_p50', b.waited[1]), ('queue_wait_seconds_p95', b.waited[2]), ('step_seconds_p50', b.ran[1]), ('step_seconds_p95', b.ran[2])) x(name, value)
  WHERE x.value IS NOT NULL
$$;

-- purpose: what stands at this moment, by tenant: ready steps and the age of the oldest, steps that run, open approvals, operations of unknown fate
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION sample_levels() RETURNS TABLE (tenant_id uuid, name text, value float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH now AS MATERIALIZED (SELECT clock() AS at), r AS MATERIALIZED (
    SELECT y.tenant_id, y.queue, count(*)::float8 AS n, min(y.since) AS since FROM ready y GROUP BY 1, 2
  ), a AS MATERIALIZED (
    SELECT o.tenant_id, (SELECT s.queue FROM step s WHERE s.step_id = o.step_id AND s.tenant_id = o.tenant_id) AS queue, count(*)::float8 AS n FROM attempt o WHERE o.ended_at IS NULL GROUP BY 1, 2
  ), p AS MATERIALIZED (
    SELECT o.tenant_id, count(*)::float8 AS n, min(o.created_at) AS since FROM approval o WHERE o.state = 'requested' GROUP BY 1
  ), u AS MATERIALIZED (
    SELECT o.tenant_id, count(*)::float8 AS n, min(o.unknown_since) AS since FROM operation o WHERE o.state = 'unknown' GROUP BY 1
  ), s(tenant_id, name, n, since) AS (
    SELECT r.tenant_id, 'ready', sum(r.n), min(r.since) FROM r GROUP BY 1 UNION ALL SELECT r.tenant_id, 'ready:' || r.queue, r.n, r.since FROM r
    UNION ALL SELECT p.tenant_id, 'approvals', p.n, p.since FROM p UNION ALL SELECT u.tenant_id, 'unknown', u.n, u.since FROM u
  )
  SELECT s.tenant_id, CASE WHEN s.name = 'approvals' THEN 'approvals_open' WHEN s.name = 'unknown' THEN 'operations_in_doubt' ELSE replace(s.name, 'ready', 'ready_steps') END, s.n FROM s
  UNION ALL
  SELECT s.tenant_id, CASE WHEN s.name = 'approvals' THEN 'approvals_age_seconds' WHEN s.name = 'unknown' THEN 'operations_age_seconds' ELSE replace(s.name, 'ready', 'ready_age_seconds') END, greatest(extract(epoch FROM now.at - s.since), 0)::float8 FROM s, now
  UNION ALL
  SELECT a.tenant_id, 'steps_running', sum(a.n) FROM a GROUP BY 1
  UNION ALL
  SELECT a.tenant_id, 'steps_running:' || a.queue, a.n FROM a WHERE a.queue IS NOT NULL
$$;

-- purpose: what stands at this moment and belongs to no tenant: the outbox and its relays, workers, connections and the size of the database
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION sample_platform() RETURNS TABLE (name text, value float8) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  WITH now AS MATERIALIZED (SELECT clock() AS at), w AS MATERIALIZED (
    SELECT CASE WHEN x.state = 'gone' THEN 'gone' WHEN x.seen_at <= now.at - 30 * interval '1 s' THEN 'silent' ELSE 'live' END AS state, count(*)::float8 AS n, sum(x.slots)::float8 AS slots, sum(x.running)::float8 AS running
    FROM worker x, now GROUP BY 1
  )
  SELECT x.name, x.value FROM outbox_lag() o, LATERAL (VALUES ('outbox_rows', o.waiting::float8), ('outbox_lag_seconds', greatest(o.oldest_seconds, 0))) x(name, value)
  UNION ALL SELECT 'relays', count(*)::float8 FROM relay
  UNION ALL SELECT 'relay_partitions', count(*)::float8 FROM outbox_partition p, now WHERE p.owner IS NOT NULL AND p.lease_until >= now.at
  -- what left the outbox since the server began to count: published, or parked; no transaction counts it
  UNION ALL SELECT 'outbox_left_total', pg_stat_get_tuples_deleted('stanchion.outbox'::regclass)::float8
  UNION ALL SELECT 'workers_' || s.state, coalesce((SELECT w.n FROM w WHERE w.state = s.state), 0) FROM (VALUES ('live'), ('silent'), ('gone')) s(state)
  UNION ALL SELECT 'slots', coalesce((SELECT w.slots FROM w WHERE w.state = 'live'), 0)
  UNION ALL SELECT 'slots_busy', coalesce((SELECT w.running FROM w WHERE w.state = 'live'), 0)
  UNION ALL SELECT 'db_connections', (SELECT sum(d.numbackends)::float8 FROM pg_stat_database d)
  UNION ALL SELECT 'db_connections_max', current_setting('max_connections')::float8
  UNION ALL SELECT 'db_bytes', pg_database_size(current_database())::float8
$$;

-- purpose: keep a view of the task list under a name; a name of its owner that is there is changed. NULL above the limit of a tenant
-- transition: none
-- fenced by: the limit, counted under the tenant's lock
-- locks: an advisory lock on the tenant's views, the view; the audit chain last
CREATE FUNCTION save_view(p_tenant uuid, p_view uuid, p_owner text, p_name text, p_query text, p_order text, p_shared boolean) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_id uuid;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('views:' || p_tenant::text, 0));
  UPDATE saved_view v SET query = p_query, "order" = p_order, shared = p_shared, updated_at = clock() WHERE v.tenant_id = p_tenant AND v.owner = p_owner AND v.name = p_name RETURNING v.view_id INTO v_id;
  IF v_id IS NULL THEN
    IF (SELECT count(*) FROM saved_view v WHERE v.tenant_id = p_tenant) >= 200 THEN RETURN NULL; END IF;
    INSERT INTO saved_view (view_id, tenant_id, owner, name, query, "order", shared) VALUES (p_view, p_tenant, p_owner, p_name, p_query, p_order, p_shared);
    v_id := p_view;
  END IF;
  PERFORM note_act(p_tenant, p_owner, 'view.save', v_id::text, jsonb_build_object('name', p_name, 'query', p_query, 'shared', p_shared));
  RETURN v_id;
END $$;

-- purpose: why a person has no say about one approval: its state unless it is open, else what no_say says; NULL: it waits for them
-- transition: none
-- fenced by: nothing: a vote looks again, under the lock
-- locks: none
CREATE FUNCTION say_of(p_tenant uuid, p_approval uuid, p_person uuid) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE WHEN a.state <> 'requested' THEN a.state WHEN a.expires_at <= clock() THEN 'expired' ELSE no_say(a, p_person) END
  FROM approval a WHERE a.approval_id = p_approval AND a.tenant_id = p_tenant
$$;

-- purpose: of steps that their holder hands in unfinished, those that have sent something of unknown fate wait for a probe instead
-- transition: step leased|running|reconciling -> unknown; attempt -> failed (it does not count), or released
-- fenced by: each step's own fence
-- locks: the caller holds the steps; their operations
CREATE FUNCTION set_aside_doubtful(p_worker uuid, p_steps uuid[], p_fences bigint[], p_errors jsonb[], p_delay_ms bigint) RETURNS uuid[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  v_aside uuid[] := '{}';
  i int;
BEGIN
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (p_steps) AND x.doubts > 0 ORDER BY x.step_id LOOP
    i := array_position(p_steps, s.step_id);
    CONTINUE WHEN s.fence <> p_fences[i] OR s.state NOT IN ('leased', 'running', 'reconciling');
    PERFORM end_in_doubt(p_worker, s.step_id, s.fence, p_errors[i], p_delay_ms);
    v_aside := v_aside || s.step_id;
  END LOOP;
  RETURN v_aside;
END $$;

-- purpose: the limits of a task's budget, for the units that are named
-- transition: none
-- fenced by: the task's run not having begun
-- locks: the rows of the budget by unit
CREATE FUNCTION set_budget(p_tenant uuid, p_task uuid, p_budget jsonb) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  INSERT INTO budget (tenant_id, task_id, unit, allowed) SELECT p_tenant, p_task, b.key, b.value::numeric FROM jsonb_each_text(p_budget) b ORDER BY b.key
  ON CONFLICT (task_id, unit, tenant_id) DO UPDATE SET allowed = EXCLUDED.allowed;
  IF (SELECT count(*) FROM budget b WHERE b.task_id = p_task AND b.tenant_id = p_tenant) > 10 THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-BUD-03 a budget has at most 10 units';
  END IF;
END $$;

-- purpose: give a person a role and rights beside it; only one whose present role the caller outranks: done, missing, or beyond
-- transition: none
-- fenced by: the roles that the caller may touch, compared under the person's lock
-- locks: the person; the audit chain last
CREATE FUNCTION set_role(p_tenant uuid, p_name text, p_role text, p_rights text[], p_may text[], p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  x person;
BEGIN
  SELECT * INTO x FROM person p WHERE p.tenant_id = p_tenant AND p.name = p_name FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN 'missing'; END IF;
  IF x.role <> ALL (p_may) OR p_role <> ALL (p_may) THEN RETURN 'beyond'; END IF;
  IF x.role = p_role AND x.rights = p_rights THEN RETURN 'done'; END IF;
  UPDATE person p SET role = p_role, rights = p_rights WHERE p.person_id = x.person_id AND p.tenant_id = p_tenant;
  PERFORM note_act(p_tenant, p_actor, 'person.role', p_name, jsonb_build_object('before', x.role, 'after', p_role, 'rights_before', x.rights, 'rights_after', p_rights));
  RETURN 'done';
END $$;

-- purpose: the public key by which a Kafka command is verified
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION signing_key_of(p_tenant uuid, p_key text) RETURNS TABLE (public_key bytea, scopes text[]) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT k.public_key, k.scopes FROM signing_key k WHERE k.tenant_id = p_tenant AND k.key_id = p_key AND k.revoked_at IS NULL
$$;

-- purpose: all that a step comes after was skipped: so is the step, unless a fan-out that it joins brings something
-- transition: barrier waiting -> released (with nothing included); held step pending -> skipped, or ready when it was the last of what it waits for
-- fenced by: the release row's primary key
-- locks: the caller holds the barrier; then the held step
CREATE FUNCTION skip_held(b barrier, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  INSERT INTO barrier_release (tenant_id, barrier_id, included, failed, skipped, at) VALUES (b.tenant_id, b.barrier_id, 0, 0, b.skipped, v_now);
  UPDATE barrier x SET state = 'released', version = x.version + 1, released_at = v_now WHERE x.barrier_id = b.barrier_id;
  INSERT INTO event (tenant_id, run_id, kind, version, at, body)
  VALUES (b.tenant_id, b.run_id, 'BarrierReleased', b.version + 1, v_now, jsonb_build_object('barrier', b.barrier_id, 'rule', b.rule, 'expected', b.expected, 'succeeded', 0, 'failed', 0, 'skipped', b.skipped));
  SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM pass_over(b.step_id, jsonb_build_object('code', 'E-STEP-20', 'what', 'what it comes after was not chosen')) x;
END $$;

-- purpose: a pending step never runs; what waits for it learns that, and a failure outside any fan-out ends the run
-- transition: step pending -> skipped, and in turn those that only it could have started
-- fenced by: the step's state: one that is not pending any more was decided before
-- locks: the step, then those that only it could have started
CREATE FUNCTION skip_step(p_step uuid, p_reason jsonb, p_spoiled boolean, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  s step;
  v_counts aftermath[] := '{}';
BEGIN
  o_arrivals := '{}';
  o_after := '{}';
  o_skipped := '{}';
  UPDATE step x SET state = 'skipped', version = x.version + 1, spoiled = p_spoiled, updated_at = clock() WHERE x.step_id = p_step AND x.state = 'pending' RETURNING * INTO s;
  IF NOT FOUND THEN
    SELECT * INTO s FROM step x WHERE x.step_id = p_step;
    IF p_spoiled AND s.fan_id IS NULL THEN o_after := ARRAY[ROW(s.run_id, 0, p_reason, NULL, NULL)::aftermath]; END IF;
    RETURN;
  END IF;
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepSkipped', s.version, p_reason || jsonb_strip_nulls(jsonb_build_object('spoiled', nullif(p_spoiled, false))));
  IF p_spoiled AND s.fan_id IS NULL THEN
    -- outside any fan-out nothing above could collect the failure
    o_after := ARRAY[ROW(s.run_id, 0, p_reason, NULL, NULL)::aftermath];
    RETURN;
  END IF;
  IF s.counts THEN v_counts := ARRAY[ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath]; END IF;
  SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM follow(s, CASE WHEN p_spoiled THEN 'bad' ELSE 'skipped' END, p_reason) x;
  o_after := v_counts || o_after;
  o_skipped := s.step_id || o_skipped;
END $$;

-- purpose: what has settled of the branches that a join waits for, a slot; the slot of a branch is fixed by its index
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION slots_of(b barrier) RETURNS TABLE (slot int, ok int, bad int, skipped int, remaining int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT c.slot, coalesce(x.ok, 0), coalesce(x.bad, 0), coalesce(x.skipped, 0), c.capacity - coalesce(x.ok + x.bad + x.skipped, 0)
  FROM (SELECT slot_of(i) AS slot, count(*)::int AS capacity FROM generate_series(0, b.expected - 1) i GROUP BY 1) c
  LEFT JOIN (
    SELECT slot_of(s.idx) AS slot, (count(*) FILTER (WHERE s.state = 'succeeded'))::int AS ok,
      (count(*) FILTER (WHERE s.state = 'failed' OR (s.state = 'skipped' AND s.spoiled)))::int AS bad,
      (count(*) FILTER (WHERE s.state = 'cancelled' OR (s.state = 'skipped' AND NOT s.spoiled)))::int AS skipped
    FROM step s WHERE s.fan_id = b.fan_id AND b.barrier_id = ANY (s.feeds) AND s.replaced_by IS NULL GROUP BY 1
  ) x ON x.slot = c.slot
$$;

-- purpose: why somebody may not say this about an approval; NULL when they may. What somebody wants to know is answered by whoever works with tasks, also by who asked for it
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION speaker_fault(a approval, p_person uuid, p_vote text) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE WHEN p_vote <> 'answer' THEN voter_fault(a, p_person)
    WHEN NOT EXISTS (SELECT FROM person p WHERE p.person_id = p_person AND p.tenant_id = a.tenant_id AND p.disabled_at IS NULL AND p.role <> 'viewer') THEN 'answer' END
$$;

-- purpose: book what an attempt says it used, once for each report; a task that spent more than it may ends as at its deadline
-- transition: run created|running -> cancelling, with outcome failed
-- fenced by: the step's own fence
-- locks: the step, the budget, then the run
CREATE FUNCTION spend(p_worker uuid, p_step uuid, p_fence bigint, p_spending uuid, p_unit text, p_amount numeric) RETURNS TABLE (outcome text, allowed numeric, spent numeric) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_task uuid;
  s step;
  b budget;
BEGIN
  SELECT * INTO s FROM holder_of(p_worker, p_step, p_fence, 'spend');
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'stale', NULL::numeric, NULL::numeric;
    RETURN;
  END IF;
  SELECT r.task_id INTO v_task FROM run r WHERE r.run_id = s.run_id AND r.tenant_id = s.tenant_id;
  PERFORM hold_budget(s.tenant_id, v_task);
  -- the answer to an earlier call may have got lost: its booking stands
  IF p_amount > 0 AND NOT EXISTS (SELECT FROM spending x WHERE x.spending_id = p_spending AND x.unit = p_unit AND x.tenant_id = s.tenant_id) THEN
    IF NOT EXISTS (SELECT FROM budget x WHERE x.task_id = v_task AND x.unit = p_unit AND x.tenant_id = s.tenant_id)
       AND (SELECT count(*) FROM budget x WHERE x.task_id = v_task AND x.tenant_id = s.tenant_id) >= 10 THEN
      RETURN QUERY SELECT 'units', NULL::numeric, NULL::numeric;
      RETURN;
    END IF;
    INSERT INTO spending (tenant_id, spending_id, task_id, run_id, step_id, fence, unit, amount) VALUES (s.tenant_id, p_spending, v_task, s.run_id, s.step_id, s.fence, p_unit, trim_scale(p_amount));
    PERFORM note_budget(s.tenant_id, s.run_id, s.step_id, 'BudgetSpent', s.fence, jsonb_build_object('unit', p_unit, 'amount', trim_scale(p_amount)));
  END IF;
  SELECT x.* INTO b FROM budget x WHERE x.task_id = v_task AND x.unit = p_unit AND x.tenant_id = s.tenant_id;
  IF b.spent > b.allowed THEN
    PERFORM wind_down(s.run_id, 'failed', jsonb_build_object('code', 'E-BUD-02', 'what', format('the task spent more than its budget: %s', budget_text(b.unit, b.allowed, b.spent))), 'engine');
  END IF;
  RETURN QUERY SELECT CASE WHEN b.spent > b.allowed THEN 'over' ELSE 'spent' END, b.allowed, b.spent;
END $$;

-- purpose: let settled steps arrive and do what follows: offer what became ready, then conclude what concerns the runs
-- transition: those of arrive and conclude
-- fenced by: the caller
-- locks: slots, barriers, held steps, runs, tasks
CREATE FUNCTION spread(p_arrivals arrival[], p_done uuid[], p_after aftermath[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_ready uuid[];
  v_after aftermath[];
BEGIN
  IF cardinality(p_arrivals) > 0 THEN
    SELECT a.o_ready, a.o_after INTO v_ready, v_after FROM arrive(p_arrivals, p_done) a;
    IF cardinality(v_ready) > 0 THEN PERFORM make_ready(v_ready); END IF;
  END IF;
  PERFORM conclude(p_after || v_after);
END $$;

-- purpose: the first lease of a run starts it and its task
-- transition: run created -> running; task accepted -> running
-- fenced by: the caller holds a lease's step row
-- locks: runs by id, then tasks by id
CREATE FUNCTION start_runs(p_runs uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_tasks uuid[];
BEGIN
  PERFORM FROM run r WHERE r.run_id = ANY (p_runs) ORDER BY r.run_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE run r SET state = 'running', version = r.version + 1, updated_at = v_now WHERE r.run_id = ANY (p_runs) AND r.state = 'created'
    RETURNING r.tenant_id, r.run_id, r.task_id, r.version
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT u.tenant_id, u.run_id, 'RunStarted', u.version, v_now FROM u
  )
  SELECT array_agg(u.task_id) INTO v_tasks FROM u;
  IF v_tasks IS NULL THEN RETURN; END IF;
  PERFORM FROM task t WHERE t.task_id = ANY (v_tasks) ORDER BY t.task_id FOR NO KEY UPDATE;
  WITH u AS (
    UPDATE task t SET state = 'running', version = t.version + 1, updated_at = v_now WHERE t.task_id = ANY (v_tasks) AND t.state = 'accepted'
    RETURNING t.tenant_id, t.run_id, t.version
  )
  INSERT INTO event (tenant_id, run_id, kind, version, at) SELECT u.tenant_id, u.run_id, 'TaskStarted', u.version, v_now FROM u;
END $$;

-- purpose: a step has failed for good: record why, and tell its branch's joins, or end the run when no join would learn of it
-- transition: none (the caller moved it to failed)
-- fenced by: the caller
-- locks: the caller holds the step; then those that only it could have started
CREATE FUNCTION step_failed(s step, p_error jsonb, OUT o_arrivals arrival[], OUT o_after aftermath[], OUT o_skipped uuid[]) LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_reason jsonb := jsonb_build_object('code', 'E-STEP-21', 'what', format('step %s failed', s.node), 'step', s.step_id, 'why', how_it_failed(s.step_id), 'error', p_error);
BEGIN
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, fence, body) VALUES (s.tenant_id, s.run_id, s.step_id, 'StepFailed', s.version, nullif(s.fence, 0), v_reason || jsonb_build_object('attempts', s.attempts));
  DELETE FROM timer t WHERE t.target_id = s.step_id;
  IF s.fan_id IS NULL OR (s.uncollected AND is_needed(s.fan_id, s.idx)) THEN
    o_arrivals := '{}';
    o_skipped := '{}';
    o_after := ARRAY[ROW(s.run_id, 0, v_reason, NULL, NULL)::aftermath];
    RETURN;
  END IF;
  SELECT x.o_arrivals, x.o_after, x.o_skipped INTO o_arrivals, o_after, o_skipped FROM follow(s, 'bad', v_reason) x;
END $$;

-- purpose: how many steps one offer names, of so many that are offered at once: several when they are known to be short, or unknown and very many; a sixteenth at most, so that many workers have a part
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION steps_in_offer(p_workflow text, p_version int, p_node text, p_of bigint) RETURNS int LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT greatest(1, least(p_of / 16, CASE WHEN p_of < 32 THEN 1 ELSE coalesce(
    (SELECT CASE WHEN n.mean_ms < 20 THEN 20 WHEN n.mean_ms < 100 THEN 4 ELSE 1 END FROM node_stat n WHERE n.workflow = p_workflow AND n.version = p_version AND n.node = p_node),
    CASE WHEN p_of >= 500 THEN 8 ELSE 1 END) END))::int
$$;

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

-- purpose: accept a batch of tasks with their first plan; the same key and payload give the same task, the same message is applied once
-- transition: births: task accepted, run created, steps, barriers
-- fenced by: unique keys of task (tenant, idempotency_key) and inbox (message, consumer, tenant)
-- locks: only new rows, tasks in key order; the audit chain last
CREATE FUNCTION submit(p_tasks jsonb, p_steps jsonb, p_barriers jsonb) RETURNS TABLE (ord int, outcome text, task_id uuid, run_id uuid, state text)
LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock();
  v_new uuid[];
  v_fresh uuid[];
BEGIN
  -- a message is applied once, by whichever replica: whoever else has it waits here for the first one's end, and then brings nothing new
  WITH i AS (
    INSERT INTO inbox (tenant_id, message_id, consumer, subject, at)
    SELECT x.tenant_id, x.message_id, 'task-service', x.task_id, v_now FROM jsonb_to_recordset(p_tasks) AS x(ord int, tenant_id uuid, message_id text, task_id uuid) WHERE x.message_id IS NOT NULL ORDER BY x.message_id, x.ord
    ON CONFLICT DO NOTHING RETURNING subject
  ) SELECT array_agg(i.subject) INTO v_fresh FROM i;
  WITH p AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(p_tasks) AS x(ord int, tenant_id uuid, task_id uuid, run_id uuid, workflow text, workflow_version int, idempotency_key text, payload_digest text, input jsonb, input_blob text, priority int, tags text[],
      goal text, constraints jsonb, budget jsonb, deadline_at timestamptz, submitted_via text, submitted_by text, open int, message_id text, correlation_id text)
  ), t AS (
    INSERT INTO task (tenant_id, task_id, run_id, workflow, workflow_version, state, idempotency_key, payload_digest, input, input_blob, priority, tags, goal, constraints, deadline_at, submitted_via, submitted_by, created_at, updated_at)
    SELECT p.tenant_id, p.task_id, p.run_id, p.workflow, p.workflow_version, 'accepted', p.idempotency_key, decode(p.payload_digest, 'hex'), p.input, decode(p.input_blob, 'hex'), coalesce(p.priority, 0), coalesce(p.tags, '{}'),
           p.goal, p.constraints, p.deadline_at, p.submitted_via, p.submitted_by, v_now, v_now
    FROM p WHERE p.message_id IS NULL OR p.task_id = ANY (v_fresh) ORDER BY p.tenant_id, p.idempotency_key, p.ord
    ON CONFLICT (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING tenant_id, task_id, run_id, workflow, workflow_version, deadline_at
  ), r AS (
    INSERT INTO run (tenant_id, run_id, task_id, number, workflow, workflow_version, state, open, seq, created_at, updated_at)
    SELECT t.tenant_id, t.run_id, t.task_id, 1, t.workflow, t.workflow_version, 'created', (SELECT p.open FROM p WHERE p.task_id = t.task_id), 1, v_now, v_now FROM t
  ), e AS (
    INSERT INTO event (tenant_id, run_id, kind, version, at, body)
    SELECT p.tenant_id, p.run_id, 'TaskAccepted', 0, v_now, jsonb_build_object('task', p.task_id, 'run', 1, 'workflow', p.workflow, 'workflow_version', p.workflow_version, 'payload', p.payload_digest, 'priority', coalesce(p.priority, 0),
      'via', p.submitted_via, 'by', p.submitted_by) || CASE WHEN p.budget IS NULL THEN '{}' ELSE jsonb_build_object('budget', p.budget) END FROM p JOIN t ON t.task_id = p.task_id
  ), d AS (
    INSERT INTO timer (tenant_id, kind, due_at, run_id, target_id) SELECT t.tenant_id, 'task_deadline', t.deadline_at, t.run_id, t.task_id FROM t WHERE t.deadline_at IS NOT NULL
  ), o AS (
    INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, sequence, body)
    SELECT outbox_partition_of(t.run_id), t.tenant_id, 'stanchion.events.v1', t.run_id::text, 'TaskAccepted', t.run_id::text, 1,
           jsonb_build_object('task_id', t.task_id, 'run_id', t.run_id, 'workflow', t.workflow, 'version', t.workflow_version)::text FROM t
  )
  SELECT array_agg(t.task_id) INTO v_new FROM t;
  -- a new message with a known key is about the task that has the key
  UPDATE inbox i SET subject = x.known FROM (SELECT y.tenant_id, y.message_id, (SELECT t.task_id FROM task t WHERE t.tenant_id = y.tenant_id AND t.idempotency_key = y.idempotency_key) AS known
    FROM jsonb_to_recordset(p_tasks) AS y(tenant_id uuid, message_id text, task_id uuid, idempotency_key text) WHERE y.task_id = ANY (v_fresh) AND y.task_id <> ALL (coalesce(v_new, '{}'))) x
  WHERE i.message_id = x.message_id AND i.consumer = 'task-service' AND i.tenant_id = x.tenant_id AND x.known IS NOT NULL;
  IF v_new IS NOT NULL THEN
    PERFORM insert_plan(
      CASE WHEN cardinality(v_new) = jsonb_array_length(p_tasks) THEN p_steps ELSE
        (SELECT jsonb_agg(s) FROM jsonb_array_elements(p_steps) s WHERE (s->>'task_id')::uuid = ANY (v_new)) END,
      CASE WHEN p_barriers IS NULL OR cardinality(v_new) = jsonb_array_length(p_tasks) THEN p_barriers ELSE
        (SELECT jsonb_agg(b) FROM jsonb_array_elements(p_barriers) b WHERE (b->>'task_id')::uuid = ANY (v_new)) END);
    IF p_tasks @? '$[*].budget' THEN
      PERFORM set_budget(x.tenant_id, x.task_id, x.budget) FROM jsonb_to_recordset(p_tasks) AS x(tenant_id uuid, task_id uuid, budget jsonb) WHERE x.budget IS NOT NULL AND x.task_id = ANY (v_new);
    END IF;
    PERFORM note_submissions(v_new);
  END IF;
  RETURN QUERY
    SELECT x.ord, CASE WHEN t.task_id = x.task_id AND x.task_id = ANY (v_new) THEN 'created' WHEN t.payload_digest = decode(x.payload_digest, 'hex') THEN 'duplicate' ELSE 'conflict' END, t.task_id, t.run_id, t.state
    FROM jsonb_to_recordset(p_tasks) AS x(ord int, tenant_id uuid, task_id uuid, idempotency_key text, payload_digest text, message_id text),
    LATERAL (SELECT t.* FROM task t WHERE t.tenant_id = x.tenant_id AND t.task_id = coalesce(
      (SELECT k.task_id FROM task k WHERE k.tenant_id = x.tenant_id AND k.idempotency_key = x.idempotency_key),
      (SELECT i.subject FROM inbox i WHERE i.message_id = x.message_id AND i.consumer = 'task-service' AND i.tenant_id = x.tenant_id), x.task_id)) t
    ORDER BY x.ord;
END $$;

-- purpose: after a join was decided: once no join over its fan-out waits and none says rest=finish, cancel the branches that have not started (those that run may finish, late); once none that holds waits, let go what held for a reopening
-- transition: step ready|retry_wait -> cancelled, fan-out waiting -> cancelled before its first branch; what only these could have started -> skipped
-- fenced by: the joins over the fan-out being decided, which none of them takes back
-- locks: an advisory lock on the barrier's sweep; steps that hold nothing, by id (skipping locked ones), then slots, barriers and held steps as any arrival
CREATE FUNCTION sweep_barrier(p_barrier uuid, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_began timestamptz := clock_timestamp();
  v_reason jsonb := jsonb_build_object('code', 'E-JOIN-23', 'what', 'the join was decided without it');
  b barrier;
  s step;
  d record;
  v_over boolean;
  v_holding boolean;
  v_fans uuid[];
  v_ids uuid[] := '{}';
  v_done uuid[] := '{}';
  v_n int;
  v_arrivals arrival[] := '{}';
  v_after aftermath[] := '{}';
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('sweep:' || p_barrier::text, 0)) THEN RETURN 0; END IF;
  SELECT * INTO b FROM barrier x WHERE x.barrier_id = p_barrier AND x.kind = 'gather' AND x.state <> 'waiting' AND (NOT x.closed OR x.sweep_at IS NOT NULL);
  IF NOT FOUND THEN RETURN 0; END IF;
  -- a branch that one join did without may be what another one waits for
  SELECT bool_and(x.state <> 'waiting' AND x.rest <> 'finish'), bool_or(x.state = 'waiting' AND x.on_failed = 'hold') INTO v_over, v_holding FROM barrier x WHERE x.fan_id = b.fan_id AND x.step_id IS NOT NULL;
  v_fans := ARRAY[b.fan_id];
  IF v_over THEN
    WITH RECURSIVE f(id) AS (SELECT b.fan_id UNION ALL SELECT x.step_id FROM f, step x WHERE x.fan_id = f.id AND x.kind = 'fan') SELECT array_agg(f.id) INTO v_fans FROM f;
    -- pending steps follow from those before them, in the lock order of any arrival
    v_ids := cancel_pending(v_fans, p_limit, v_reason);
    v_after := withdraw_approvals(v_ids, v_reason);
  END IF;
  FOR s IN SELECT x.* FROM step x WHERE x.step_id = ANY (v_ids) ORDER BY x.step_id LOOP
    IF s.counts THEN v_after := v_after || ROW(s.run_id, 1, NULL, NULL, NULL)::aftermath; END IF;
    SELECT * INTO d FROM follow(s, 'skipped', v_reason);
    v_arrivals := v_arrivals || d.o_arrivals;
    v_after := v_after || d.o_after;
  END LOOP;
  v_n := cardinality(v_ids);
  IF v_n = 0 AND NOT v_holding AND EXISTS (SELECT FROM barrier x WHERE x.fan_id = ANY (v_fans) AND x.on_failed = 'hold') THEN
    SELECT x.o_n, x.o_arrivals, x.o_after, x.o_skipped INTO v_n, v_arrivals, v_after, v_done FROM let_go(b, v_fans, v_over) x;
  END IF;
  PERFORM spread(v_arrivals, v_done, v_after);
  IF v_n = 0 THEN
    -- what is left runs, or another join waits for it: the look at a large fan-out takes a tenth of the time at most
    UPDATE barrier x SET sweep_at = CASE WHEN NOT x.closed OR EXISTS (SELECT FROM barrier o WHERE o.fan_id = x.fan_id AND NOT o.closed)
      THEN clock() + CASE WHEN v_over THEN least(greatest((clock_timestamp() - v_began) * 10, interval '100 ms'), interval '2 s') ELSE interval '2 s' END END
    WHERE x.barrier_id = p_barrier AND (NOT x.closed OR x.sweep_at IS NOT NULL);
  END IF;
  RETURN v_n;
END $$;

-- purpose: wind a run down: cancel what has not started, take what outlived its grace, undo what it did where its workflow asks for that, end the run when nothing is open any more
-- transition: step pending|ready|retry_wait|waiting -> cancelled, leased|running -> cancelled after the grace; run cancelling -> failed|cancelled
-- fenced by: the run being in cancelling
-- locks: an advisory lock on the run's sweep; steps by id (skipping locked ones); then its barriers, the run, the task
CREATE FUNCTION sweep_run(p_run uuid, p_limit int, p_grace_ms int) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  r run;
  v_seen uuid[];
  v_cancelled uuid[];
  v_ids uuid[];
  v_idle text[] := ARRAY['pending', 'ready', 'retry_wait', 'waiting'];
  v_held text[] := ARRAY['leased', 'running'];
  v_doubtful text[] := ARRAY['unknown', 'reconciling'];
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('sweep:' || p_run::text, 0)) THEN RETURN 'taken'; END IF;
  SELECT * INTO r FROM run x WHERE x.run_id = p_run AND x.state = 'cancelling';
  IF NOT FOUND THEN RETURN 'gone'; END IF;
  IF r.updated_at + p_grace_ms * interval '1 ms' < clock() THEN v_idle := v_idle || v_held; END IF;
  -- once through all steps, so many at a time
  SELECT array_agg(y.step_id ORDER BY y.step_id), array_agg(y.step_id) FILTER (WHERE y.state = ANY (v_idle)) INTO v_seen, v_ids
  FROM (SELECT s.step_id, CASE s.kind WHEN 'undo' THEN 'undo' ELSE s.state END AS state FROM step s WHERE s.run_id = p_run AND s.step_id > coalesce(r.swept_to, '00000000-0000-0000-0000-000000000000') ORDER BY s.step_id LIMIT p_limit) y;
  IF v_ids IS NOT NULL THEN PERFORM conclude(withdraw_approvals(cancel_steps(v_ids, r.reason), r.reason)); END IF;
  IF v_seen IS NOT NULL THEN
    UPDATE run x SET swept_to = v_seen[cardinality(v_seen)] WHERE x.run_id = p_run;
    RETURN 'sweeping';
  END IF;
  -- then what is left: rows that were locked were passed over, and what runs may have become ready again
  v_ids := ARRAY(SELECT s.step_id FROM step s WHERE s.run_id = p_run AND s.state = ANY (v_idle) AND s.kind <> 'undo' LIMIT p_limit);
  IF v_ids <> '{}' THEN
    v_cancelled := cancel_steps(v_ids, r.reason);
    PERFORM conclude(withdraw_approvals(v_cancelled, r.reason));
    IF v_cancelled <> '{}' THEN RETURN 'sweeping'; END IF;
  END IF;
  IF EXISTS (SELECT FROM step s WHERE s.run_id = p_run AND s.state = ANY (v_idle || v_held || v_doubtful)) THEN RETURN 'waiting'; END IF;
  -- once more under the run's lock: whoever inserts steps into the run holds it until they can be seen
  -- its barriers before it: a join's deadline may fire at this moment, and takes them in this order
  PERFORM FROM barrier b WHERE b.run_id = p_run AND b.state = 'waiting' ORDER BY b.barrier_id DESC FOR NO KEY UPDATE;
  PERFORM FROM run x WHERE x.run_id = p_run FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM step s WHERE s.run_id = p_run AND s.state = ANY (v_idle || v_held || v_doubtful)) THEN RETURN 'waiting'; END IF;
  IF compensate_next(r) THEN RETURN 'sweeping'; END IF;
  PERFORM end_run(p_run);
  RETURN 'ended';
END $$;

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

-- purpose: whether it is this orchestrator's turn to ask the broker how far its readers are: one in so many seconds, of however many
-- transition: none
-- fenced by: the row's lock: of those who come at once one is told yes
-- locks: the one row
CREATE FUNCTION take_lag_look(p_by text, p_every interval) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
BEGIN
  -- a conflict locks the row even where nothing is updated, and that is a write
  IF EXISTS (SELECT FROM lag_look x WHERE x.taken_at > v_now - p_every) THEN RETURN false; END IF;
  INSERT INTO lag_look AS x (taken_by, taken_at) VALUES (p_by, v_now)
  ON CONFLICT (here) DO UPDATE SET taken_by = excluded.taken_by, taken_at = v_now WHERE x.taken_at <= v_now - p_every;
  RETURN FOUND;
END $$;

-- purpose: write the samples of one span of ten seconds that is over and was not sampled: a row for each tenant that had anything, and one for the platform
-- transition: none
-- fenced by: the platform's row: its primary key lets one of many writers through, the others find it there
-- locks: only new rows
CREATE FUNCTION take_sample(p_margin interval, p_back int, p_attempts int) RETURNS timestamptz LANGUAGE plpgsql SET search_path = stanchion, pg_temp SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
  v_platform uuid := '00000000-0000-0000-0000-000000000000';
  v_span interval := interval '10 s';
  v_newest timestamptz := date_bin(v_span, clock() - p_margin, '2000-01-01Z') - v_span;
  v_slot timestamptz;
BEGIN
  SELECT g.slot INTO v_slot FROM generate_series(v_newest - p_back * v_span, v_newest, v_span) g(slot)
  WHERE NOT EXISTS (SELECT FROM sample x WHERE x.tenant_id = v_platform AND x.seconds = 10 AND x.slot = g.slot) ORDER BY 1 LIMIT 1;
  IF v_slot IS NULL THEN RETURN NULL; END IF;
  INSERT INTO sample (tenant_id, seconds, slot, body) VALUES (v_platform, 10, v_slot, '{}') ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN NULL; END IF;
  WITH counts AS MATERIALIZED (
    SELECT * FROM sample_counts(v_slot, v_slot + v_span)
  ), levels AS MATERIALIZED (
    SELECT * FROM sample_latencies(v_slot, v_slot + v_span, p_attempts)
    -- what stands now says nothing about a span that is long over
    UNION ALL SELECT * FROM sample_levels() WHERE v_slot = v_newest
  ), platform AS MATERIALIZED (
    SELECT * FROM sample_platform() WHERE v_slot = v_newest
  ), every AS (
    SELECT 'counts' AS part, c.* FROM counts c
    UNION ALL SELECT 'levels', l.* FROM levels l
    UNION ALL SELECT 'counts', v_platform, c.name, sum(c.value) FROM counts c GROUP BY c.name
    UNION ALL SELECT 'levels', v_platform, l.name, CASE WHEN l.name ~ '_age_seconds' THEN max(l.value) ELSE sum(l.value) END FROM levels l WHERE l.name !~ '_p[0-9]+$' GROUP BY l.name
    UNION ALL SELECT 'levels', v_platform, p.name, p.value FROM platform p
    -- what left the outbox since the sample before; a server that began to count anew says nothing once
    UNION ALL SELECT 'counts', v_platform, 'relay_messages', p.value - b.value FROM platform p, LATERAL (
      SELECT (x.body->'levels'->>'outbox_left_total')::float8 AS value FROM sample x WHERE x.tenant_id = v_platform AND x.seconds = 10 AND x.slot = v_slot - v_span) b
    WHERE p.name = 'outbox_left_total' AND p.value >= b.value
  )
  INSERT INTO sample AS x (tenant_id, seconds, slot, body)
  SELECT e.tenant_id, 10, v_slot, jsonb_build_object('counts', coalesce(jsonb_object_agg(e.name, e.value) FILTER (WHERE e.part = 'counts'), '{}'), 'levels', coalesce(jsonb_object_agg(e.name, e.value) FILTER (WHERE e.part = 'levels'), '{}'))
  FROM every e GROUP BY e.tenant_id
  ON CONFLICT (tenant_id, seconds, slot) DO UPDATE SET body = excluded.body;
  RETURN v_slot;
END $$;

-- purpose: a sign-in comes back from its provider: once, in time, and to the browser that began it
-- transition: none
-- fenced by: the row, which is deleted
-- locks: the row
CREATE FUNCTION take_sign_in(p_tenant uuid, p_state bytea, p_binder bytea) RETURNS TABLE (nonce text, verifier text, return_to text) LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  DELETE FROM sign_in s WHERE s.state_hash = p_state AND s.tenant_id = p_tenant AND s.binder_hash = p_binder AND s.expires_at > clock() RETURNING s.nonce, s.verifier, s.return_to
$$;

-- purpose: the tasks of the connection's tenant that have one of these tags. A function, since an index on tags is not used behind row-level security: overlap of arrays is not leakproof
-- transition: none
-- fenced by: the tenant that the connection shows
-- locks: none
CREATE FUNCTION tasks_with_tags(p_tags text[]) RETURNS SETOF uuid LANGUAGE sql STABLE ROWS 1000 SET search_path = stanchion, pg_temp AS $$
  SELECT t.task_id FROM task t WHERE t.tenant_id = current_setting('stanchion.tenant')::uuid AND t.tags <> '{}' AND t.tags && p_tags
$$;

-- purpose: a person says what became of an operation of unknown fate, why, and by what that is proven
-- transition: operation unknown -> confirmed|prepared|not_done; with the last doubt gone its step goes on
-- fenced by: the operation being unknown
-- locks: the step, the operation, its task's budget, then the run (shared); the audit chain last
CREATE FUNCTION tell_operation(p_tenant uuid, p_operation uuid, p_done boolean, p_reason text, p_proof text, p_receipt jsonb, p_actor text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  v_state text;
  s step;
  o operation;
BEGIN
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = p_tenant;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such operation in this tenant'; END IF;
  SELECT x.* INTO s FROM step x WHERE x.step_id = o.step_id AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  SELECT x.* INTO o FROM operation x WHERE x.operation_id = p_operation AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  IF o.state <> 'unknown' THEN RETURN o.state; END IF;
  v_now := clock();
  IF o.cost IS NOT NULL THEN PERFORM hold_costs(o); END IF;
  v_state := CASE WHEN p_done THEN 'confirmed' WHEN (SELECT (r.state = 'cancelling' AND s.kind <> 'undo') OR s.state IN ('succeeded', 'failed', 'cancelled') FROM run r WHERE r.run_id = o.run_id AND r.tenant_id = p_tenant FOR SHARE) THEN 'not_done' ELSE 'prepared' END;
  PERFORM add_probe(o, p_actor, CASE WHEN p_done THEN 'done' ELSE 'not_done' END, true, jsonb_build_object('reason', p_reason, 'proof', p_proof));
  UPDATE operation x SET state = v_state, version = x.version + 1, proof = -3, settled_by = p_actor, updated_at = v_now, receipt = CASE WHEN p_done THEN p_receipt END,
    confirmed_at = CASE WHEN p_done THEN v_now END, unknown_since = NULL
  WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id RETURNING * INTO o;
  PERFORM note_operation(o, operation_event(v_state), NULL, p_actor, jsonb_build_object('reason', p_reason, 'proof', p_proof));
  IF NOT p_done THEN PERFORM give_cost_back(o, NULL); END IF;
  PERFORM note_compensated(o);
  IF s.state = 'unknown' AND s.doubts = 1 THEN
    s.doubts := 0;
    PERFORM go_on(s, 0, p_actor, jsonb_build_object('operation', o.operation_id));
  ELSIF s.doubts > 0 THEN
    -- a probe holds the step at this moment, or it has more in doubt
    UPDATE step x SET doubts = x.doubts - 1, proof = CASE WHEN x.state = 'unknown' THEN 0 ELSE -3 END WHERE x.step_id = s.step_id AND x.tenant_id = s.tenant_id;
  END IF;
  PERFORM note_act(p_tenant, p_actor, CASE WHEN p_done THEN 'operation.mark_done' ELSE 'operation.mark_not_done' END, p_operation::text, jsonb_build_object('reason', p_reason, 'proof', p_proof));
  RETURN o.state;
END $$;

-- purpose: a tenant's id by its name
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION tenant_by_name(p_name text) RETURNS uuid LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT t.tenant_id FROM tenant t WHERE t.name = p_name
$$;

-- purpose: the names by which tenants are known outside; messages and logs carry names
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION tenant_names(p_tenants uuid[]) RETURNS TABLE (tenant_id uuid, name text) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT t.tenant_id, t.name FROM tenant t WHERE t.tenant_id = ANY (p_tenants)
$$;

-- purpose: give up deliveries that were held for too long, and forget those that ended 30 days ago; returns how many rows it touched
-- transition: webhook delivery due -> failed
-- fenced by: the state
-- locks: the deliveries, skipping locked ones
CREATE FUNCTION trim_deliveries(p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_given_up int;
  v_gone int;
BEGIN
  UPDATE webhook_delivery d SET state = 'failed', ended_at = clock(), error = 'E-HOOK-05' WHERE (d.delivery_id, d.tenant_id) IN (
    SELECT x.delivery_id, x.tenant_id FROM webhook_delivery x WHERE x.state = 'due' AND x.due_at IS NULL AND x.give_up_at <= clock() LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_given_up = ROW_COUNT;
  DELETE FROM webhook_delivery d WHERE (d.delivery_id, d.tenant_id) IN (
    SELECT x.delivery_id, x.tenant_id FROM webhook_delivery x WHERE x.ended_at < (SELECT clock()) - interval '30 days' ORDER BY x.ended_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_gone = ROW_COUNT;
  RETURN v_given_up + v_gone;
END $$;

-- purpose: forget messages that were applied so long ago that no broker delivers them again
-- transition: none
-- fenced by: nothing
-- locks: the inbox's rows
CREATE FUNCTION trim_inbox(p_older interval, p_limit int) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  DELETE FROM inbox i WHERE i.ctid = ANY (ARRAY(SELECT x.ctid FROM inbox x WHERE x.at < clock() - p_older ORDER BY x.at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;

-- purpose: a step that undoes an effect: leased and tried again as any other, also while its run winds down or after it ended
-- transition: birth: step ready, of kind undo
-- fenced by: the caller holds the operation
-- locks: only new rows
CREATE FUNCTION undo_operation(o operation, p_actor text, p_why text) RETURNS uuid LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_step uuid := uuidv7();
  s step := (SELECT x FROM step x WHERE x.step_id = o.step_id AND x.tenant_id = o.tenant_id);
BEGIN
  INSERT INTO step (tenant_id, step_id, run_id, kind, state, node, queue, workflow, workflow_version, priority, input, lease_ms, created_at, updated_at)
  VALUES (o.tenant_id, v_step, o.run_id, 'undo', 'ready', s.node, s.queue, s.workflow, s.workflow_version, s.priority, jsonb_build_object('operation', o.operation_id), s.lease_ms, v_now, v_now);
  INSERT INTO event (tenant_id, run_id, step_id, kind, version, at, actor, body)
  VALUES (o.tenant_id, o.run_id, v_step, 'StepReady', 0, v_now, p_actor, jsonb_strip_nulls(jsonb_build_object('node', s.node, 'kind', 'undo', 'undoes', o.operation_id, 'why', p_why)));
  PERFORM make_ready(ARRAY[v_step]);
  RETURN v_step;
END $$;

-- purpose: the last look at the approval of an operation that is about to go out, the first time or once more; NULL when it may
-- transition: approval granted -> spent, or expired
-- fenced by: the caller holds the operation and the approval
-- locks: none beyond them
CREATE FUNCTION use_approval(o operation) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_fault text;
  a approval;
BEGIN
  IF o.approval_id IS NULL THEN RETURN CASE WHEN o.needs_approval THEN 'none' END; END IF;
  SELECT * INTO a FROM approval x WHERE x.approval_id = o.approval_id AND x.tenant_id = o.tenant_id;
  IF NOT FOUND THEN RETURN 'none'; END IF;
  v_fault := approval_fault(a, o);
  IF v_fault = 'expired' AND a.state = 'granted' THEN
    PERFORM end_approval(a, 'expired', NULL, 'it was not used in time');
  ELSIF v_fault IS NULL AND a.state = 'granted' THEN
    UPDATE approval x SET state = 'spent', version = x.version + 1, updated_at = v_now, spent_at = v_now, spent_by = o.operation_id
    WHERE x.approval_id = a.approval_id AND x.tenant_id = a.tenant_id RETURNING * INTO a;
    PERFORM note_approval(a, 'ApprovalSpent', NULL, jsonb_build_object('operation', o.operation_id));
  END IF;
  IF v_fault IS NOT NULL THEN
    SELECT * INTO a FROM approval x WHERE x.approval_id = o.approval_id AND x.tenant_id = o.tenant_id;
    PERFORM note_approval(a, 'ApprovalRefused', NULL, jsonb_build_object('operation', o.operation_id, 'why', v_fault));
  END IF;
  RETURN v_fault;
END $$;

-- purpose: what a person says about an approval: approve, reject, ask back, answer such a question, or pass the vote on; the last vote that it needs decides it
-- transition: approval requested -> granted|rejected; step waiting -> succeeded
-- fenced by: the approval's state and time, the person's vote, and the hash of what was shown, all looked at under its lock
-- locks: the step, the approval, then slots, barriers, held steps, runs, tasks; the audit chain last
CREATE FUNCTION vote(p_tenant uuid, p_approval uuid, p_person uuid, p_vote text, p_hash bytea, p_comment text, p_delegate text) RETURNS text LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_fault text;
  v_subject text;
  v_said text;
  v_state text;
  a approval;
  d record;
BEGIN
  a := hold_approval(p_tenant, p_approval);
  SELECT 'person:' || p.name INTO v_subject FROM person p WHERE p.person_id = p_person AND p.tenant_id = p_tenant;
  SELECT v.vote INTO v_said FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant AND v.person_id = p_person AND v.vote IN ('approve', 'reject', 'delegate');
  IF v_said = p_vote AND p_hash = a.payload_hash AND (p_vote <> 'delegate' OR EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant AND v.person_id = p_person AND v.delegate_to = p_delegate)) THEN RETURN a.state; END IF;  -- asked again, since the answer got lost
  v_fault := speaker_fault(a, p_person, p_vote);
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'ST009', MESSAGE = 'E-APR-03 ' || CASE v_fault WHEN 'requester' THEN 'whoever asked for it may not decide it' WHEN 'delegated' THEN 'the vote was passed on'
      WHEN 'role' THEN 'only an approver or an admin decides' WHEN 'answer' THEN 'a viewer answers nothing' ELSE 'others were asked' END;
  END IF;
  IF a.state <> 'requested' THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-APR-01 the approval is %s', a.state); END IF;
  IF a.expires_at <= clock() THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-02 the time to decide is over'; END IF;
  IF p_hash <> a.payload_hash THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-04 the approval covers something else than what was shown'; END IF;
  IF v_said IS NOT NULL AND p_vote NOT IN ('ask_back', 'answer') THEN RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = format('E-APR-05 this person has said %s already', v_said); END IF;
  IF (SELECT count(*) FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant) >= 200 THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-05 there are 200 entries about it already';
  END IF;
  IF p_vote = 'delegate' AND NOT coalesce((SELECT coalesce(voter_fault(a, p.person_id), '') IN ('', 'not asked') AND p.person_id <> p_person
      AND NOT EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant AND v.person_id = p.person_id AND v.vote IN ('approve', 'reject', 'delegate'))
      FROM person p WHERE p.name = p_delegate AND p.tenant_id = p_tenant), false) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-06 the vote can''t be passed on to them: they may not decide it, or have said something already';
  END IF;
  INSERT INTO approval_vote (tenant_id, approval_id, number, person_id, subject, vote, payload_hash, comment, delegate_to)
  SELECT p_tenant, p_approval, count(*) + 1, p_person, v_subject, p_vote, p_hash, p_comment, p_delegate FROM approval_vote v WHERE v.approval_id = p_approval AND v.tenant_id = p_tenant;
  IF p_vote = 'delegate' AND (SELECT count(*) FROM (SELECT FROM person p WHERE p.tenant_id = p_tenant AND voter_fault(a, p.person_id) IS NULL LIMIT a.needs) x) < a.needs THEN
    RAISE EXCEPTION USING ERRCODE = 'ST011', MESSAGE = 'E-APR-06 the vote can''t be passed on to them: too few would be left to approve it';
  END IF;
  UPDATE approval x SET updated_at = clock() WHERE x.approval_id = p_approval AND x.tenant_id = p_tenant RETURNING * INTO a;
  PERFORM note_approval(a, 'ApprovalVoted', v_subject, jsonb_build_object('vote', p_vote, 'comment', p_comment, 'delegate_to', p_delegate));
  v_state := CASE WHEN p_vote = 'reject' THEN 'rejected' WHEN p_vote = 'approve' AND votes_for(a) >= a.needs THEN 'granted' ELSE a.state END;
  IF v_state <> a.state THEN
    SELECT * INTO d FROM end_approval(a, v_state, v_subject, p_comment);
    PERFORM spread(d.o_arrivals, d.o_settled, d.o_after);
  END IF;
  PERFORM note_act(p_tenant, v_subject, 'approval.' || p_vote, p_approval::text, jsonb_build_object('hash', encode(p_hash, 'hex'), 'comment', p_comment, 'delegate_to', p_delegate, 'state', v_state));
  RETURN v_state;
END $$;

-- purpose: why somebody has no vote on an approval; NULL when they have. Whoever delegates passes the vote on and keeps none, whoever edited it made it
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION voter_fault(a approval, p_person uuid) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE
    WHEN p.person_id IS NULL OR p.disabled_at IS NOT NULL OR p.role NOT IN ('approver', 'admin', 'platform') THEN 'role'
    WHEN a.four_eyes AND 'person:' || p.name IN (a.requested_by, a.edited_by) THEN 'requester'
    WHEN EXISTS (SELECT FROM approval_vote v WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.person_id = p.person_id AND v.vote = 'delegate') THEN 'delegated'
    WHEN a.people = '{}' AND a.teams = '{}' OR p.name = ANY (a.people) THEN NULL
    WHEN EXISTS (SELECT FROM team_member m WHERE m.person_id = p.person_id AND m.tenant_id = p.tenant_id AND m.team = ANY (a.teams)) THEN NULL
    WHEN EXISTS (SELECT FROM approval_vote v JOIN person g ON g.person_id = v.person_id AND g.tenant_id = v.tenant_id WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.vote = 'delegate' AND v.delegate_to = p.name
      AND g.disabled_at IS NULL AND g.role IN ('approver', 'admin', 'platform')) THEN NULL
    ELSE 'not asked' END
  FROM (SELECT 1) one LEFT JOIN person p ON p.person_id = p_person AND p.tenant_id = a.tenant_id
$$;

-- purpose: how many approve it, of those who still may: whoever lost the role, left the team or was disabled does not count
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION votes_for(a approval) RETURNS bigint LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT count(DISTINCT v.person_id) FROM approval_vote v
  WHERE v.approval_id = a.approval_id AND v.tenant_id = a.tenant_id AND v.vote = 'approve' AND v.payload_hash = a.payload_hash AND voter_fault(a, v.person_id) IS NULL
$$;

-- purpose: what became of the last targets that a job reopened or retried: how many came to an end since, and how many of these have failed again
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION watch_job(p_tenant uuid, p_job uuid, p_limit int) RETURNS TABLE (acted int, settled int, failed int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT count(*)::int, count(*) FILTER (WHERE coalesce(s.state, r.state) IN ('succeeded', 'failed', 'cancelled', 'skipped'))::int, count(*) FILTER (WHERE coalesce(s.state, r.state) = 'failed')::int
  FROM (SELECT * FROM job_target x WHERE x.job_id = p_job AND x.tenant_id = p_tenant AND x.outcome = 'done' ORDER BY x.at DESC LIMIT p_limit) t
  LEFT JOIN run r ON r.run_id = t.made_id AND r.tenant_id = p_tenant
  LEFT JOIN step s ON t.made_id IS NULL AND s.step_id = t.target_id AND s.tenant_id = p_tenant
$$;

-- purpose: begin the end of a run: what has not started is going to be cancelled by the sweep, what runs is told at its heartbeat
-- transition: run created|running -> cancelling; with outcome cancelled also task accepted|running|awaiting_approval -> cancelling, with outcome failed awaiting_approval -> running
-- fenced by: the caller
-- locks: the run, then its task
CREATE FUNCTION wind_down(p_run uuid, p_outcome text, p_reason jsonb, p_actor text) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  r run;
BEGIN
  UPDATE run SET state = 'cancelling', outcome = p_outcome, reason = p_reason, version = version + 1, updated_at = v_now
  WHERE run_id = p_run AND state IN ('created', 'running') RETURNING * INTO r;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body)
  VALUES (r.tenant_id, r.run_id, 'RunCancelling', r.version, v_now, p_actor, jsonb_build_object('outcome', p_outcome, 'reason', p_reason));
  IF p_outcome = 'cancelled' THEN
    WITH u AS (
      UPDATE task t SET state = 'cancelling', version = t.version + 1, updated_at = v_now, reason = p_reason
      WHERE t.task_id = r.task_id AND t.state IN ('accepted', 'running', 'awaiting_approval') RETURNING t.tenant_id, t.version
    ) INSERT INTO event (tenant_id, run_id, kind, version, at, actor, body) SELECT u.tenant_id, r.run_id, 'TaskCancelling', u.version, v_now, p_actor, p_reason FROM u;
  END IF;
  IF p_outcome = 'failed' THEN
    WITH u AS (
      UPDATE task t SET state = 'running', version = t.version + 1, updated_at = v_now WHERE t.task_id = r.task_id AND t.state = 'awaiting_approval' RETURNING t.tenant_id, t.version
    ) INSERT INTO event (tenant_id, run_id, kind, version, at, actor) SELECT u.tenant_id, r.run_id, 'TaskAnswered', u.version, v_now, p_actor FROM u;
  END IF;
  INSERT INTO outbox (part, tenant_id, topic, key, type, correlation_id, body)
  VALUES (outbox_partition_of(r.run_id), r.tenant_id, 'stanchion.orchestrator.commands.v1', r.run_id::text, 'PlanRun', r.run_id::text, jsonb_build_object('run_id', r.run_id)::text);
  RETURN true;
END $$;

-- purpose: steps were cancelled that people were asked for: nobody waits for the answer any more
-- transition: approval requested -> revoked
-- fenced by: the caller holds the steps
-- locks: approvals by id
CREATE FUNCTION withdraw_approvals(p_steps uuid[], p_reason jsonb) RETURNS aftermath[] LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz;
  a approval;
  v_after aftermath[] := '{}';
BEGIN
  FOR a IN SELECT x.* FROM approval x WHERE x.step_id = ANY (p_steps) AND x.state = 'requested' ORDER BY x.approval_id FOR NO KEY UPDATE LOOP
    v_now := clock();
    UPDATE approval x SET state = 'revoked', version = x.version + 1, updated_at = v_now, decided_at = v_now, decided_by = 'canceller', reason = left(p_reason->>'what', 1000)
    WHERE x.approval_id = a.approval_id AND x.tenant_id = a.tenant_id RETURNING * INTO a;
    PERFORM note_approval(a, 'ApprovalRevoked', 'canceller', jsonb_build_object('reason', a.reason));
    PERFORM notify_approval(a, 'approval.decided');
    v_after := v_after || approval_news(a, 'ApprovalDecided');
  END LOOP;
  RETURN v_after;
END $$;

-- purpose: one cheap look for the orchestrator's loops: which of them have something to do
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION work_waiting() RETURNS TABLE (expansions boolean, timers boolean, leases boolean, offers boolean, runs uuid[], barriers uuid[], deliveries boolean, aside int) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  -- (SELECT clock()) is evaluated once, so that it can bound an index scan; a bare clock() would be compared with every row
  SELECT EXISTS (SELECT FROM timer t WHERE t.due_at <= (SELECT clock()) AND t.kind = 'expand' AND t.target_id <> ALL ((SELECT aside('expansion'))::uuid[]) AND (SELECT r.state IN ('created', 'running') FROM run r WHERE r.run_id = t.run_id)),
    EXISTS (SELECT FROM timer t WHERE t.due_at <= (SELECT clock()) AND t.kind <> 'expand' AND t.timer_id <> ALL ((SELECT aside('timer'))::uuid[])),
    EXISTS (SELECT FROM attempt a WHERE a.ended_at IS NULL AND a.lease_until < (SELECT clock()) AND a.step_id <> ALL ((SELECT aside('lease'))::uuid[])),
    EXISTS (SELECT FROM ready r WHERE r.offered_at IS NULL) OR EXISTS (SELECT FROM ready r WHERE r.offered_at < (SELECT clock()) - interval '5 s'),
    -- at random: a hundred runs whose steps don't stop must not keep the others from their end
    ARRAY(SELECT r.run_id FROM run r WHERE r.state = 'cancelling' AND r.run_id <> ALL ((SELECT aside('run'))::uuid[]) ORDER BY random() LIMIT 100),
    ARRAY(SELECT b.barrier_id FROM barrier b WHERE b.kind = 'gather' AND b.state <> 'waiting' AND (NOT b.closed OR b.sweep_at IS NOT NULL) AND (b.closed OR b.rest = 'cancel' OR b.on_failed = 'hold')
      AND (b.sweep_at IS NULL OR b.sweep_at <= (SELECT clock())) AND b.barrier_id <> ALL ((SELECT aside('barrier'))::uuid[]) LIMIT 100),
    EXISTS (SELECT FROM webhook_delivery d WHERE d.state = 'due' AND d.due_at <= (SELECT clock())),
    (SELECT count(*)::int FROM set_aside x WHERE x.retry_at > (SELECT clock()))
$$;

-- purpose: a worker's presence: what it serves, how busy it is, how far its clock is off; tells it when it is asked to drain
-- transition: none
-- fenced by: nothing: presence is information, leases are the law
-- locks: for a new worker the advisory lock on putting aside; the worker's row; ready rows that were put aside for want of a worker (skipping locked ones)
CREATE FUNCTION worker_seen(p_worker uuid, p_name text, p_host text, p_pid int, p_queues text[], p_workflows text[], p_slots int, p_running int, p_state text, p_clock timestamptz, p_tenants uuid[]) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_now timestamptz := clock();
  v_known boolean := EXISTS (SELECT FROM worker w WHERE w.worker_id = p_worker AND is_alive(w));
  v_drain boolean;
BEGIN
  IF p_state = 'active' AND NOT v_known THEN PERFORM pg_advisory_xact_lock(hashtextextended('put aside', 0)); END IF;
  INSERT INTO worker AS w (worker_id, name, host, pid, queues, workflows, slots, running, state, clock_offset_ms, started_at, seen_at, tenants)
  VALUES (p_worker, p_name, p_host, p_pid, p_queues, p_workflows, p_slots, p_running, p_state, greatest(-2e9, least(2e9, extract(epoch FROM p_clock - v_now) * 1000))::int, v_now, v_now, p_tenants)
  ON CONFLICT (worker_id) DO UPDATE SET queues = p_queues, workflows = p_workflows, slots = p_slots, running = p_running, state = p_state,
    clock_offset_ms = greatest(-2e9, least(2e9, extract(epoch FROM p_clock - v_now) * 1000))::int, seen_at = v_now, tenants = p_tenants
  RETURNING w.drain_requested INTO v_drain;
  IF p_state = 'active' AND NOT v_known THEN
    -- it is new, or was away: what waited for one like it is offered now
    UPDATE ready x SET offered_at = NULL, offers = 0 WHERE x.step_id = ANY (ARRAY(
      SELECT r.step_id FROM ready r WHERE r.queue = ANY (p_queues) AND r.offered_at > v_now AND r.workflow || '@' || r.workflow_version = ANY (p_workflows) AND (p_tenants IS NULL OR r.tenant_id = ANY (p_tenants)) LIMIT 20000 FOR UPDATE SKIP LOCKED));
  END IF;
  RETURN v_drain;
END $$;

CREATE FUNCTION stanchion.task_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state NOT IN ('accepted') THEN
      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a task is never born %s', NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.state <> OLD.state AND NOT (CASE OLD.state
      WHEN 'accepted' THEN NEW.state IN ('running', 'completed', 'failed', 'cancelling')
      WHEN 'running' THEN NEW.state IN ('completed', 'failed', 'awaiting_approval', 'cancelling')
      WHEN 'awaiting_approval' THEN NEW.state IN ('running', 'rejected', 'cancelling')
      WHEN 'cancelling' THEN NEW.state IN ('cancelled')
      WHEN 'failed' THEN NEW.state IN ('accepted')
      WHEN 'cancelled' THEN NEW.state IN ('accepted')
      WHEN 'rejected' THEN NEW.state IN ('accepted')
      ELSE false END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a task: %s -> %s', OLD.state, NEW.state);
  END IF;
  IF NEW.tenant_id IS DISTINCT FROM OLD.tenant_id OR NEW.task_id IS DISTINCT FROM OLD.task_id OR NEW.workflow IS DISTINCT FROM OLD.workflow OR NEW.idempotency_key IS DISTINCT FROM OLD.idempotency_key OR NEW.payload_digest IS DISTINCT FROM OLD.payload_digest THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a task never changes';
  END IF;
  IF NEW.version <> OLD.version + (CASE WHEN NEW.state <> OLD.state THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the version of a task rises by one with each transition';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER task_guard BEFORE INSERT OR UPDATE ON stanchion.task FOR EACH ROW EXECUTE FUNCTION stanchion.task_guard();

CREATE FUNCTION stanchion.run_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state NOT IN ('created') THEN
      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a run is never born %s', NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.state <> OLD.state AND NOT (CASE OLD.state
      WHEN 'created' THEN NEW.state IN ('running', 'cancelling', 'succeeded')
      WHEN 'running' THEN NEW.state IN ('cancelling', 'succeeded')
      WHEN 'cancelling' THEN NEW.state IN ('failed', 'cancelled')
      ELSE false END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a run: %s -> %s', OLD.state, NEW.state);
  END IF;
  IF NEW.tenant_id IS DISTINCT FROM OLD.tenant_id OR NEW.run_id IS DISTINCT FROM OLD.run_id OR NEW.task_id IS DISTINCT FROM OLD.task_id OR NEW.number IS DISTINCT FROM OLD.number OR NEW.workflow IS DISTINCT FROM OLD.workflow OR NEW.workflow_version IS DISTINCT FROM OLD.workflow_version THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a run never changes';
  END IF;
  IF NEW.version <> OLD.version + (CASE WHEN NEW.state <> OLD.state THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the version of a run rises by one with each transition';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER run_guard BEFORE INSERT OR UPDATE ON stanchion.run FOR EACH ROW EXECUTE FUNCTION stanchion.run_guard();

CREATE FUNCTION stanchion.step_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state NOT IN ('pending', 'ready', 'succeeded', 'skipped') THEN
      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a step is never born %s', NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.state <> OLD.state AND NOT (CASE OLD.state
      WHEN 'pending' THEN NEW.state IN ('ready', 'waiting', 'skipped', 'failed', 'cancelled')
      WHEN 'ready' THEN NEW.state IN ('leased', 'unknown', 'failed', 'cancelled')
      WHEN 'leased' THEN NEW.state IN ('waiting', 'running', 'succeeded', 'retry_wait', 'failed', 'ready', 'unknown', 'cancelled')
      WHEN 'running' THEN NEW.state IN ('waiting', 'succeeded', 'retry_wait', 'failed', 'ready', 'unknown', 'cancelled')
      WHEN 'waiting' THEN NEW.state IN ('succeeded', 'failed', 'cancelled')
      WHEN 'retry_wait' THEN NEW.state IN ('unknown', 'ready', 'failed', 'cancelled')
      WHEN 'unknown' THEN NEW.state IN ('reconciling', 'ready', 'cancelled')
      WHEN 'reconciling' THEN NEW.state IN ('unknown', 'ready', 'cancelled')
      WHEN 'failed' THEN NEW.state IN ('ready')
      ELSE false END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a step: %s -> %s', OLD.state, NEW.state);
  END IF;
  IF NEW.tenant_id IS DISTINCT FROM OLD.tenant_id OR NEW.step_id IS DISTINCT FROM OLD.step_id OR NEW.run_id IS DISTINCT FROM OLD.run_id OR NEW.node IS DISTINCT FROM OLD.node OR NEW.fan_id IS DISTINCT FROM OLD.fan_id OR NEW.idx IS DISTINCT FROM OLD.idx OR NEW.kind IS DISTINCT FROM OLD.kind THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a step never changes';
  END IF;
  IF NEW.version <> OLD.version + (CASE WHEN NEW.state <> OLD.state THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the version of a step rises by one with each transition';
  END IF;
  IF NEW.fence <> OLD.fence + (CASE WHEN (OLD.state, NEW.state) IN (('ready', 'leased'), ('unknown', 'reconciling')) THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the fence of a step rises by one with each lease, and only then';
  END IF;
  IF OLD.state IN ('leased', 'running', 'reconciling') THEN
    IF NEW.proof = OLD.fence THEN NULL;
    ELSIF NEW.proof = -1 AND NEW.state IN ('ready', 'failed', 'unknown') AND NOT EXISTS (
      SELECT FROM stanchion.attempt a WHERE a.step_id = OLD.step_id AND a.fence = OLD.fence AND a.tenant_id = OLD.tenant_id AND a.lease_until >= stanchion.clock()) THEN NULL;
    ELSIF NEW.proof = -2 AND NEW.state IN ('cancelled', 'unknown') AND EXISTS (SELECT FROM stanchion.run r WHERE r.run_id = OLD.run_id AND r.state = 'cancelling') THEN NULL;
    ELSIF NEW.proof = -3 AND NEW.state = OLD.state AND NEW.doubts = OLD.doubts - 1 THEN NULL;  -- a person told what became of an operation, while a probe holds the step
    ELSE RAISE EXCEPTION USING ERRCODE = 'ST003', MESSAGE = format('stale fence %s, the current one is %s', NEW.proof, OLD.fence);
    END IF;
  ELSIF OLD.state = 'failed' AND NEW.state = 'ready' AND NOT EXISTS (SELECT FROM stanchion.run r WHERE r.run_id = OLD.run_id AND r.state IN ('created', 'running')) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = 'a step is reopened only while its run is live';
  END IF;
  IF NEW.state IN ('failed', 'cancelled') AND NEW.state <> OLD.state THEN PERFORM stanchion.leave_in_doubt(OLD, 'engine', '{"why": "its step has ended, and what was sent may still land"}'); END IF;
  -- the proof never stays: the next writer must present its own
  NEW.proof := 0;
  RETURN NEW;
END $$;
CREATE TRIGGER step_guard BEFORE INSERT OR UPDATE ON stanchion.step FOR EACH ROW EXECUTE FUNCTION stanchion.step_guard();

CREATE FUNCTION stanchion.attempt_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state NOT IN ('granted') THEN
      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a attempt is never born %s', NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.state <> OLD.state AND NOT (CASE OLD.state
      WHEN 'granted' THEN NEW.state IN ('running', 'succeeded', 'failed', 'lost', 'released', 'superseded')
      WHEN 'running' THEN NEW.state IN ('succeeded', 'failed', 'lost', 'released', 'superseded')
      ELSE false END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a attempt: %s -> %s', OLD.state, NEW.state);
  END IF;
  IF NEW.tenant_id IS DISTINCT FROM OLD.tenant_id OR NEW.step_id IS DISTINCT FROM OLD.step_id OR NEW.fence IS DISTINCT FROM OLD.fence OR NEW.worker_id IS DISTINCT FROM OLD.worker_id THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a attempt never changes';
  END IF;
  IF OLD.ended_at IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'an attempt that ended is immutable';
  END IF;
  IF OLD.fence IS DISTINCT FROM (SELECT s.fence FROM stanchion.step s WHERE s.step_id = OLD.step_id AND s.tenant_id = OLD.tenant_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST003', MESSAGE = format('fence %s is not the current one of its step', OLD.fence);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER attempt_guard BEFORE INSERT OR UPDATE ON stanchion.attempt FOR EACH ROW EXECUTE FUNCTION stanchion.attempt_guard();

CREATE FUNCTION stanchion.barrier_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state NOT IN ('waiting') THEN
      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a barrier is never born %s', NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.state <> OLD.state AND NOT (CASE OLD.state
      WHEN 'waiting' THEN NEW.state IN ('released', 'failed', 'cancelled')
      ELSE false END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a barrier: %s -> %s', OLD.state, NEW.state);
  END IF;
  IF NEW.tenant_id IS DISTINCT FROM OLD.tenant_id OR NEW.barrier_id IS DISTINCT FROM OLD.barrier_id OR NEW.run_id IS DISTINCT FROM OLD.run_id OR NEW.step_id IS DISTINCT FROM OLD.step_id OR NEW.fan_id IS DISTINCT FROM OLD.fan_id OR NEW.kind IS DISTINCT FROM OLD.kind OR NEW.rule IS DISTINCT FROM OLD.rule OR NEW.expected IS DISTINCT FROM OLD.expected THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a barrier never changes';
  END IF;
  IF NEW.version <> OLD.version + (CASE WHEN NEW.state <> OLD.state THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the version of a barrier rises by one with each transition';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER barrier_guard BEFORE INSERT OR UPDATE ON stanchion.barrier FOR EACH ROW EXECUTE FUNCTION stanchion.barrier_guard();

CREATE FUNCTION stanchion.operation_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state NOT IN ('prepared') THEN
      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a operation is never born %s', NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.state <> OLD.state AND NOT (CASE OLD.state
      WHEN 'prepared' THEN NEW.state IN ('dispatched', 'refused', 'unknown')
      WHEN 'dispatched' THEN NEW.state IN ('confirmed', 'prepared', 'refused', 'unknown')
      WHEN 'confirmed' THEN NEW.state IN ('compensated')
      WHEN 'unknown' THEN NEW.state IN ('confirmed', 'prepared', 'not_done')
      WHEN 'not_done' THEN NEW.state IN ('prepared')
      ELSE false END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a operation: %s -> %s', OLD.state, NEW.state);
  END IF;
  IF NEW.tenant_id IS DISTINCT FROM OLD.tenant_id OR NEW.operation_id IS DISTINCT FROM OLD.operation_id OR NEW.task_id IS DISTINCT FROM OLD.task_id OR NEW.scope_id IS DISTINCT FROM OLD.scope_id OR NEW.kind IS DISTINCT FROM OLD.kind OR NEW.key IS DISTINCT FROM OLD.key OR NEW.payload_hash IS DISTINCT FROM OLD.payload_hash OR NEW.request_key IS DISTINCT FROM OLD.request_key OR NEW.reach IS DISTINCT FROM OLD.reach OR NEW.undo_kind IS DISTINCT FROM OLD.undo_kind OR NEW.compensates IS DISTINCT FROM OLD.compensates OR NEW.needs_approval IS DISTINCT FROM OLD.needs_approval THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a operation never changes';
  END IF;
  IF NEW.version <> OLD.version + (CASE WHEN NEW.state <> OLD.state THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the version of an operation rises by one with each transition';
  END IF;
  -- what was decided to be sent never changes; retention may take it away once the task has ended
  IF (NEW.payload, NEW.payload_blob) IS DISTINCT FROM (OLD.payload, OLD.payload_blob)
     AND NOT (NEW.payload IS NULL AND NEW.payload_blob IS NULL AND (SELECT t.ended_at IS NOT NULL FROM stanchion.task t WHERE t.task_id = OLD.task_id AND t.tenant_id = OLD.tenant_id)) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'the payload of an operation is immutable';
  END IF;
  IF OLD.state IN ('confirmed', 'refused', 'compensated') AND (coalesce(NEW.receipt, OLD.receipt), NEW.provider_id, NEW.sends) IS DISTINCT FROM (OLD.receipt, OLD.provider_id, OLD.sends) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'what is known of an operation is immutable';
  END IF;
  -- the approval it goes out under is chosen before it goes out
  IF NEW.approval_id IS DISTINCT FROM OLD.approval_id AND NEW.state <> 'prepared' THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'the approval of an operation changes only while it is prepared';
  END IF;
  IF NEW.state = 'dispatched' AND OLD.state <> 'dispatched' AND (NEW.needs_approval OR NEW.approval_id IS NOT NULL) AND NOT EXISTS (
    SELECT FROM stanchion.approval a WHERE a.approval_id = NEW.approval_id AND a.tenant_id = NEW.tenant_id AND a.state = 'spent' AND a.spent_by = NEW.operation_id AND stanchion.approval_fault(a, NEW) IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'an operation that needs an approval is dispatched under one that covers it';
  END IF;
  -- what it costs is chosen before it goes out, and it goes out charged
  IF NEW.cost IS DISTINCT FROM OLD.cost AND NEW.state <> 'prepared' THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'the cost of an operation changes only while it is prepared';
  END IF;
  IF NEW.state = 'dispatched' AND OLD.state <> 'dispatched' AND NEW.cost IS NOT NULL AND NOT stanchion.is_charged(NEW) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'an operation that costs something is dispatched once it is charged';
  END IF;
  IF NEW.state <> OLD.state THEN
    -- what moved it: its step's holder, the reaper, the canceller, a person or the engine
    IF NEW.proof > 0 AND EXISTS (
      SELECT FROM stanchion.step s WHERE s.step_id = NEW.step_id AND s.tenant_id = NEW.tenant_id AND s.fence = NEW.proof AND s.state IN ('leased', 'running', 'reconciling')) THEN NULL;
    ELSIF NEW.proof = -1 AND NEW.state = 'unknown' AND NOT EXISTS (
      SELECT FROM stanchion.attempt a WHERE a.step_id = OLD.step_id AND a.tenant_id = OLD.tenant_id AND a.ended_at IS NULL AND a.lease_until >= stanchion.clock()) THEN NULL;
    ELSIF NEW.proof = -2 AND NEW.state = 'unknown' AND EXISTS (SELECT FROM stanchion.run r WHERE r.run_id = OLD.run_id AND r.state = 'cancelling') THEN NULL;
    ELSIF NEW.proof = -3 AND OLD.state = 'unknown' AND coalesce(NEW.settled_by, '') <> '' THEN NULL;
    ELSIF NEW.proof = -5 AND NEW.state = 'unknown' AND stanchion.may_still_land(OLD) THEN NULL;  -- honest whoever says it
    ELSIF NEW.proof = -4 AND NEW.state = 'compensated' AND EXISTS (
      SELECT FROM stanchion.operation c WHERE c.compensates = OLD.operation_id AND c.tenant_id = OLD.tenant_id AND c.state = 'confirmed') THEN NULL;
    ELSE RAISE EXCEPTION USING ERRCODE = 'ST003', MESSAGE = format('an operation is not moved to %s by a writer with proof %s', NEW.state, NEW.proof);
    END IF;
    -- the machine's own verdict that it may be sent again, or never was done, needs what makes it conclusive
    IF OLD.state = 'unknown' AND NEW.state IN ('prepared', 'not_done') AND NEW.proof > 0
       AND NOT coalesce(OLD.lands_until < stanchion.clock(), false)
       AND NOT (NEW.state = 'prepared' AND coalesce(OLD.key_until > stanchion.clock(), false)) THEN
      RAISE EXCEPTION USING ERRCODE = 'ST006', MESSAGE = 'not found is no proof: a late request may still land, and the key does not hold it back';
    END IF;
    IF NEW.state = 'dispatched' AND OLD.sends > 0 AND coalesce(OLD.key_until < stanchion.clock(), true) AND NOT coalesce(OLD.lands_until < stanchion.clock(), false) AND OLD.settled_by IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'ST006', MESSAGE = 'it was sent before, and the key no longer holds a second one back';
    END IF;
  END IF;
  NEW.proof := 0;
  RETURN NEW;
END $$;
CREATE TRIGGER operation_guard BEFORE INSERT OR UPDATE ON stanchion.operation FOR EACH ROW EXECUTE FUNCTION stanchion.operation_guard();

CREATE FUNCTION stanchion.artifact_version_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state NOT IN ('pending') THEN
      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a artifact_version is never born %s', NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.state <> OLD.state AND NOT (CASE OLD.state
      WHEN 'pending' THEN NEW.state IN ('available', 'deleted')
      WHEN 'available' THEN NEW.state IN ('deleted')
      ELSE false END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a artifact_version: %s -> %s', OLD.state, NEW.state);
  END IF;
  IF NEW.tenant_id IS DISTINCT FROM OLD.tenant_id OR NEW.version_id IS DISTINCT FROM OLD.version_id OR NEW.artifact_id IS DISTINCT FROM OLD.artifact_id OR NEW.task_id IS DISTINCT FROM OLD.task_id OR NEW.run_id IS DISTINCT FROM OLD.run_id OR NEW.step_id IS DISTINCT FROM OLD.step_id OR NEW.fence IS DISTINCT FROM OLD.fence OR NEW.actor IS DISTINCT FROM OLD.actor OR NEW.media_type IS DISTINCT FROM OLD.media_type THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a artifact_version never changes';
  END IF;
  IF NEW.version <> OLD.version + (CASE WHEN NEW.state <> OLD.state THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the version of a artifact_version rises by one with each transition';
  END IF;
  IF (NEW.made_from, NEW.created_at) IS DISTINCT FROM (OLD.made_from, OLD.created_at)
    OR ((NEW.number, NEW.sha256, NEW.size, NEW.available_at) IS DISTINCT FROM (OLD.number, OLD.sha256, OLD.size, OLD.available_at) AND NOT (OLD.state = 'pending' AND NEW.state = 'available')) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'the content of an artifact_version never changes';
  END IF;
  IF NEW.state = 'available' AND OLD.state = 'pending' AND OLD.fence IS NOT NULL THEN
    PERFORM FROM stanchion.step s WHERE s.step_id = OLD.step_id AND s.tenant_id = OLD.tenant_id AND s.fence = OLD.fence AND s.state IN ('leased', 'running') FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'ST003', MESSAGE = format('stale fence %s: the lease that began this artifact_version is over', OLD.fence);
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER artifact_version_guard BEFORE INSERT OR UPDATE ON stanchion.artifact_version FOR EACH ROW EXECUTE FUNCTION stanchion.artifact_version_guard();

CREATE FUNCTION stanchion.approval_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state NOT IN ('requested') THEN
      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a approval is never born %s', NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.state <> OLD.state AND NOT (CASE OLD.state
      WHEN 'requested' THEN NEW.state IN ('granted', 'rejected', 'replaced', 'expired', 'revoked')
      WHEN 'granted' THEN NEW.state IN ('spent', 'expired', 'revoked')
      WHEN 'spent' THEN NEW.state IN ('revoked')
      ELSE false END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a approval: %s -> %s', OLD.state, NEW.state);
  END IF;
  IF NEW.tenant_id IS DISTINCT FROM OLD.tenant_id OR NEW.approval_id IS DISTINCT FROM OLD.approval_id OR NEW.task_id IS DISTINCT FROM OLD.task_id OR NEW.run_id IS DISTINCT FROM OLD.run_id OR NEW.step_id IS DISTINCT FROM OLD.step_id OR NEW.fence IS DISTINCT FROM OLD.fence OR NEW.operation_kind IS DISTINCT FROM OLD.operation_kind OR NEW.operation_key IS DISTINCT FROM OLD.operation_key OR NEW.payload_hash IS DISTINCT FROM OLD.payload_hash OR NEW.resource_id IS DISTINCT FROM OLD.resource_id OR NEW.resource_sha256 IS DISTINCT FROM OLD.resource_sha256 OR NEW.people IS DISTINCT FROM OLD.people OR NEW.teams IS DISTINCT FROM OLD.teams OR NEW.needs IS DISTINCT FROM OLD.needs OR NEW.four_eyes IS DISTINCT FROM OLD.four_eyes OR NEW.replaces IS DISTINCT FROM OLD.replaces OR NEW.edited_by IS DISTINCT FROM OLD.edited_by OR NEW.requested_by IS DISTINCT FROM OLD.requested_by OR NEW.expires_at IS DISTINCT FROM OLD.expires_at THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a approval never changes';
  END IF;
  IF NEW.version <> OLD.version + (CASE WHEN NEW.state <> OLD.state THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the version of a approval rises by one with each transition';
  END IF;
  IF (NEW.node, NEW.question, NEW.on_timeout, NEW.on_rejected, NEW.created_at) IS DISTINCT FROM (OLD.node, OLD.question, OLD.on_timeout, OLD.on_rejected, OLD.created_at) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'what people were asked never changes';
  END IF;
  -- nor what they were shown; retention may take it away once the task has ended, its hash stays
  IF (NEW.summary, NEW.payload) IS DISTINCT FROM (OLD.summary, OLD.payload)
     AND NOT (NEW.summary IS NULL AND NEW.payload IS NULL AND (SELECT t.ended_at IS NOT NULL FROM stanchion.task t WHERE t.task_id = OLD.task_id AND t.tenant_id = OLD.tenant_id)) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'what people were shown never changes';
  END IF;
  IF NEW.state = 'granted' AND OLD.state <> 'granted' AND (OLD.expires_at <= stanchion.clock() OR stanchion.votes_for(OLD) < OLD.needs) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'an approval is granted by the votes it needs, in its time';
  END IF;
  IF NEW.state = 'rejected' AND OLD.state <> 'rejected' AND NOT EXISTS (SELECT FROM stanchion.approval_vote v WHERE v.approval_id = OLD.approval_id AND v.tenant_id = OLD.tenant_id AND v.vote = 'reject') THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'an approval is rejected by a vote';
  END IF;
  IF NEW.state = 'expired' AND OLD.state <> 'expired' AND OLD.expires_at > stanchion.clock() THEN
    RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'an approval expires when its time is over';
  END IF;
  IF NEW.state = 'spent' AND OLD.state <> 'spent' THEN
    IF coalesce((SELECT coalesce(stanchion.approval_fault(OLD, o), CASE WHEN o.state <> 'prepared' OR o.approval_id IS DISTINCT FROM OLD.approval_id THEN 'operation' END, '')
                 FROM stanchion.operation o WHERE o.operation_id = NEW.spent_by AND o.tenant_id = OLD.tenant_id), 'gone') <> '' THEN
      RAISE EXCEPTION USING ERRCODE = 'ST005', MESSAGE = 'an approval is spent on the one operation that it covers, as it was shown';
    END IF;
  ELSIF NEW.spent_by IS DISTINCT FROM OLD.spent_by THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'what an approval was spent on never changes';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER approval_guard BEFORE INSERT OR UPDATE ON stanchion.approval FOR EACH ROW EXECUTE FUNCTION stanchion.approval_guard();

CREATE TRIGGER fenced AFTER INSERT ON stanchion.result REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION stanchion.fenced_rows();

CREATE TRIGGER fenced AFTER INSERT ON stanchion.event REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION stanchion.fenced_rows();

CREATE TRIGGER fenced AFTER INSERT ON stanchion.attempt REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION stanchion.fenced_rows();

CREATE TRIGGER fenced AFTER INSERT ON stanchion.artifact_version REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION stanchion.fenced_rows();

CREATE TRIGGER fenced AFTER INSERT ON stanchion.operation REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION stanchion.fenced_rows();

CREATE TRIGGER fenced AFTER INSERT ON stanchion.approval REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION stanchion.fenced_rows();

CREATE TRIGGER fenced AFTER INSERT ON stanchion.spending REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION stanchion.fenced_rows();

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.event FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change('run');

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.barrier_release FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change('barrier');

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.refused_write FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change('run');

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.operation_probe FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change('operation');

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.approval_vote FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change('approval');

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.spending FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change('task');

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.audit FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.workflow FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.event FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.barrier_release FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.refused_write FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.operation_probe FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.approval_vote FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.spending FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.audit FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.workflow FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();

CREATE TRIGGER result_guard BEFORE UPDATE ON stanchion.result FOR EACH ROW EXECUTE FUNCTION stanchion.result_guard();

CREATE TRIGGER artifact_guard BEFORE UPDATE ON stanchion.artifact FOR EACH ROW EXECUTE FUNCTION stanchion.artifact_guard();

CREATE TRIGGER artifact_kept BEFORE DELETE ON stanchion.artifact_version FOR EACH ROW EXECUTE FUNCTION stanchion.artifact_kept();

CREATE TRIGGER approval_vote_guard BEFORE INSERT ON stanchion.approval_vote FOR EACH ROW EXECUTE FUNCTION stanchion.approval_vote_guard();

CREATE TRIGGER spending_guard BEFORE INSERT ON stanchion.spending FOR EACH ROW EXECUTE FUNCTION stanchion.spending_guard();

CREATE TRIGGER budget_guard BEFORE INSERT OR UPDATE ON stanchion.budget FOR EACH ROW EXECUTE FUNCTION stanchion.budget_guard();

CREATE TRIGGER audit_chain BEFORE INSERT ON stanchion.audit FOR EACH ROW EXECUTE FUNCTION stanchion.audit_chain();

ALTER TABLE stanchion.api_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.api_key FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.api_key TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.api_key FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.approval ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.approval FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.approval TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.approval FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.approval_vote ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.approval_vote FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.approval_vote TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.approval_vote FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.artifact ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.artifact FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.artifact TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.artifact FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.artifact_version ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.artifact_version FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.artifact_version TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.artifact_version FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid AND state = 'available');

ALTER TABLE stanchion.attempt ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.attempt FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.attempt TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.attempt FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.audit FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.audit TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.audit FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.barrier ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.barrier FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.barrier TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.barrier FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.barrier_release ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.barrier_release FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.barrier_release TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.barrier_release FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.barrier_slot ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.barrier_slot FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.barrier_slot TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.barrier_slot FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.blob ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.blob FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.blob TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.blob FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.budget ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.budget FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.budget TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.budget FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.cluster ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.cluster FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.cluster TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.cluster FOR SELECT USING (true);

ALTER TABLE stanchion.consumer_group ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.consumer_group FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.consumer_group TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.consumer_group FOR SELECT USING (true);

ALTER TABLE stanchion.consumer_lag ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.consumer_lag FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.consumer_lag TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.consumer_lag FOR SELECT USING (true);

ALTER TABLE stanchion.dead_letter ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.dead_letter FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.dead_letter TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.dead_letter FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.error_cursor ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.error_cursor FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.error_cursor TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.error_cursor FOR SELECT USING (true);

ALTER TABLE stanchion.error_group ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.error_group FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.error_group TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.error_group FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.error_member ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.error_member FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.error_member TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.error_member FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.event ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.event FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.event TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.event FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.inbox FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.inbox TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.inbox FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.job_target ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.job_target FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.job_target TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.job_target FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.lag_look ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.lag_look FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.lag_look TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.lag_look FOR SELECT USING (true);

ALTER TABLE stanchion.maintenance_job ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.maintenance_job FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.maintenance_job TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.maintenance_job FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.node_stat ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.node_stat FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.node_stat TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.node_stat FOR SELECT USING (true);

ALTER TABLE stanchion.object_removal ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.object_removal FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.object_removal TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.object_removal FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.operation ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.operation FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.operation TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.operation FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.operation_probe ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.operation_probe FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.operation_probe TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.operation_probe FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.outbox FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.outbox TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.outbox FOR SELECT USING (true);

ALTER TABLE stanchion.outbox_partition ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.outbox_partition FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.outbox_partition TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.outbox_partition FOR SELECT USING (true);

ALTER TABLE stanchion.person ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.person FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.person TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.person FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.queue_pause ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.queue_pause FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.queue_pause TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.queue_pause FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.ready ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.ready FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.ready TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.ready FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.refused_write ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.refused_write FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.refused_write TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.refused_write FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.relay ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.relay FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.relay TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.relay FOR SELECT USING (true);

ALTER TABLE stanchion.result ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.result FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.result TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.result FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.run ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.run FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.run TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.run FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.sample ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.sample FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.sample TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.sample FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.saved_view ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.saved_view FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.saved_view TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.saved_view FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.session ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.session FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.session TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.session FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.set_aside ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.set_aside FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.set_aside TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.set_aside FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.sign_in ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.sign_in FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.sign_in TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.sign_in FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.signing_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.signing_key FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.signing_key TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.signing_key FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.spending ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.spending FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.spending TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.spending FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.step ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.step FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.step TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.step FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.task ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.task FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.task TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.task FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.team_member ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.team_member FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.team_member TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.team_member FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.tenant FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.tenant TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.tenant FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.timer ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.timer FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.timer TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.timer FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.webhook ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.webhook FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.webhook TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.webhook FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.webhook_delivery ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.webhook_delivery FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.webhook_delivery TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY tenant_only ON stanchion.webhook_delivery FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid);

ALTER TABLE stanchion.worker ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.worker FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.worker TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.worker FOR SELECT USING (true);

ALTER TABLE stanchion.workflow ENABLE ROW LEVEL SECURITY;
ALTER TABLE stanchion.workflow FORCE ROW LEVEL SECURITY;

CREATE POLICY engine ON stanchion.workflow TO stanchion_engine, stanchion_owner USING (true) WITH CHECK (true);

CREATE POLICY everyone ON stanchion.workflow FOR SELECT USING (true);

ALTER TABLE stanchion.api_key OWNER TO stanchion_owner;

ALTER TABLE stanchion.approval OWNER TO stanchion_owner;

ALTER TABLE stanchion.approval_vote OWNER TO stanchion_owner;

ALTER TABLE stanchion.artifact OWNER TO stanchion_owner;

ALTER TABLE stanchion.artifact_version OWNER TO stanchion_owner;

ALTER TABLE stanchion.attempt OWNER TO stanchion_owner;

ALTER TABLE stanchion.audit OWNER TO stanchion_owner;

ALTER TABLE stanchion.barrier OWNER TO stanchion_owner;

ALTER TABLE stanchion.barrier_release OWNER TO stanchion_owner;

ALTER TABLE stanchion.barrier_slot OWNER TO stanchion_owner;

ALTER TABLE stanchion.blob OWNER TO stanchion_owner;

ALTER TABLE stanchion.budget OWNER TO stanchion_owner;

ALTER TABLE stanchion.cluster OWNER TO stanchion_owner;

ALTER TABLE stanchion.consumer_group OWNER TO stanchion_owner;

ALTER TABLE stanchion.consumer_lag OWNER TO stanchion_owner;

ALTER TABLE stanchion.dead_letter OWNER TO stanchion_owner;

ALTER TABLE stanchion.error_cursor OWNER TO stanchion_owner;

ALTER TABLE stanchion.error_group OWNER TO stanchion_owner;

ALTER TABLE stanchion.error_member OWNER TO stanchion_owner;

ALTER TABLE stanchion.event OWNER TO stanchion_owner;

ALTER TABLE stanchion.inbox OWNER TO stanchion_owner;

ALTER TABLE stanchion.job_target OWNER TO stanchion_owner;

ALTER TABLE stanchion.lag_look OWNER TO stanchion_owner;

ALTER TABLE stanchion.maintenance_job OWNER TO stanchion_owner;

ALTER TABLE stanchion.node_stat OWNER TO stanchion_owner;

ALTER TABLE stanchion.object_removal OWNER TO stanchion_owner;

ALTER TABLE stanchion.operation OWNER TO stanchion_owner;

ALTER TABLE stanchion.operation_probe OWNER TO stanchion_owner;

ALTER TABLE stanchion.outbox OWNER TO stanchion_owner;

ALTER TABLE stanchion.outbox_partition OWNER TO stanchion_owner;

ALTER TABLE stanchion.person OWNER TO stanchion_owner;

ALTER TABLE stanchion.queue_pause OWNER TO stanchion_owner;

ALTER TABLE stanchion.ready OWNER TO stanchion_owner;

ALTER TABLE stanchion.refused_write OWNER TO stanchion_owner;

ALTER TABLE stanchion.relay OWNER TO stanchion_owner;

ALTER TABLE stanchion.result OWNER TO stanchion_owner;

ALTER TABLE stanchion.run OWNER TO stanchion_owner;

ALTER TABLE stanchion.sample OWNER TO stanchion_owner;

ALTER TABLE stanchion.saved_view OWNER TO stanchion_owner;

ALTER TABLE stanchion.session OWNER TO stanchion_owner;

ALTER TABLE stanchion.set_aside OWNER TO stanchion_owner;

ALTER TABLE stanchion.sign_in OWNER TO stanchion_owner;

ALTER TABLE stanchion.signing_key OWNER TO stanchion_owner;

ALTER TABLE stanchion.spending OWNER TO stanchion_owner;

ALTER TABLE stanchion.step OWNER TO stanchion_owner;

ALTER TABLE stanchion.task OWNER TO stanchion_owner;

ALTER TABLE stanchion.team_member OWNER TO stanchion_owner;

ALTER TABLE stanchion.tenant OWNER TO stanchion_owner;

ALTER TABLE stanchion.timer OWNER TO stanchion_owner;

ALTER TABLE stanchion.webhook OWNER TO stanchion_owner;

ALTER TABLE stanchion.webhook_delivery OWNER TO stanchion_owner;

ALTER TABLE stanchion.worker OWNER TO stanchion_owner;

ALTER TABLE stanchion.workflow OWNER TO stanchion_owner;

ALTER TABLE stanchion.event_default OWNER TO stanchion_owner;

GRANT USAGE ON SCHEMA stanchion TO stanchion_engine, stanchion_task_service, stanchion_orchestrator, stanchion_relay, stanchion_worker, stanchion_maintenance, stanchion_dashboard;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.api_key TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.approval TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.approval_vote TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.artifact TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.artifact_version TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.attempt TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.audit TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.barrier TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.barrier_release TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.barrier_slot TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.blob TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.budget TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.cluster TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.consumer_group TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.consumer_lag TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.dead_letter TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.error_cursor TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.error_group TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.error_member TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.event TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.inbox TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.job_target TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.lag_look TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.maintenance_job TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.node_stat TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.object_removal TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.operation TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.operation_probe TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.outbox TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.outbox_partition TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.person TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.queue_pause TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.ready TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.refused_write TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.relay TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.result TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.run TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.sample TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.saved_view TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.session TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.set_aside TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.sign_in TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.signing_key TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.spending TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.step TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.task TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.team_member TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.tenant TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.timer TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.webhook TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.webhook_delivery TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.worker TO stanchion_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON stanchion.workflow TO stanchion_engine;

REVOKE UPDATE, DELETE ON stanchion.event FROM stanchion_engine;

REVOKE UPDATE, DELETE ON stanchion.barrier_release FROM stanchion_engine;

REVOKE UPDATE, DELETE ON stanchion.refused_write FROM stanchion_engine;

REVOKE UPDATE, DELETE ON stanchion.operation_probe FROM stanchion_engine;

REVOKE UPDATE, DELETE ON stanchion.approval_vote FROM stanchion_engine;

REVOKE DELETE ON stanchion.budget FROM stanchion_engine;

REVOKE UPDATE, DELETE ON stanchion.spending FROM stanchion_engine;

REVOKE UPDATE, DELETE ON stanchion.audit FROM stanchion_engine;

REVOKE UPDATE, DELETE ON stanchion.workflow FROM stanchion_engine;

GRANT USAGE ON SEQUENCE stanchion.audit_audit_id_seq TO stanchion_engine;

GRANT SELECT ON stanchion.tenant, stanchion.workflow, stanchion.node_stat, stanchion.task, stanchion.run, stanchion.step, stanchion.attempt, stanchion.result, stanchion.barrier, stanchion.barrier_slot, stanchion.barrier_release, stanchion.artifact, stanchion.artifact_version, stanchion.event, stanchion.ready, stanchion.timer, stanchion.operation, stanchion.operation_probe, stanchion.budget, stanchion.spending, stanchion.approval, stanchion.approval_vote, stanchion.refused_write, stanchion.set_aside, stanchion.worker, stanchion.audit, stanchion.dead_letter, stanchion.maintenance_job, stanchion.outbox_partition, stanchion.relay, stanchion.saved_view, stanchion.job_target, stanchion.error_group, stanchion.error_member, stanchion.queue_pause, stanchion.lag_look, stanchion.consumer_group, stanchion.consumer_lag TO stanchion_task_service;

GRANT SELECT ON stanchion.tenant, stanchion.workflow, stanchion.node_stat, stanchion.task, stanchion.run, stanchion.step, stanchion.attempt, stanchion.result, stanchion.barrier, stanchion.barrier_slot, stanchion.barrier_release, stanchion.artifact, stanchion.artifact_version, stanchion.event, stanchion.ready, stanchion.timer, stanchion.operation, stanchion.operation_probe, stanchion.budget, stanchion.spending, stanchion.approval, stanchion.approval_vote, stanchion.refused_write, stanchion.set_aside, stanchion.worker, stanchion.audit, stanchion.dead_letter, stanchion.maintenance_job, stanchion.outbox_partition, stanchion.relay, stanchion.saved_view, stanchion.job_target, stanchion.error_group, stanchion.error_member, stanchion.queue_pause, stanchion.lag_look, stanchion.consumer_group, stanchion.consumer_lag TO stanchion_orchestrator;

GRANT SELECT ON stanchion.tenant, stanchion.workflow, stanchion.node_stat, stanchion.task, stanchion.run, stanchion.step, stanchion.attempt, stanchion.result, stanchion.barrier, stanchion.barrier_slot, stanchion.barrier_release, stanchion.artifact, stanchion.artifact_version, stanchion.event, stanchion.ready, stanchion.timer, stanchion.operation, stanchion.operation_probe, stanchion.budget, stanchion.spending, stanchion.approval, stanchion.approval_vote, stanchion.refused_write, stanchion.set_aside, stanchion.worker, stanchion.audit, stanchion.dead_letter, stanchion.maintenance_job, stanchion.outbox_partition, stanchion.relay, stanchion.saved_view, stanchion.job_target, stanchion.error_group, stanchion.error_member, stanchion.queue_pause, stanchion.lag_look, stanchion.consumer_group, stanchion.consumer_lag TO stanchion_dashboard;

GRANT SELECT ON stanchion.task, stanchion.run, stanchion.step, stanchion.attempt, stanchion.operation, stanchion.worker TO stanchion_maintenance;

DO $$
DECLARE
  f record;
BEGIN
  FOR f IN SELECT p.oid::regprocedure AS signature FROM pg_proc p WHERE p.pronamespace = 'stanchion'::regnamespace LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.signature);
    EXECUTE format('ALTER FUNCTION %s OWNER TO stanchion_engine', f.signature);
  END LOOP;
END $$;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s OWNER TO stanchion_owner', 'stanchion.event_xid'::regproc::oid::regprocedure); END $$;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s OWNER TO stanchion_owner', 'stanchion.adopt_cluster'::regproc::oid::regprocedure); END $$;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s OWNER TO stanchion_owner', 'stanchion.guard_partition'::regproc::oid::regprocedure); END $$;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s OWNER TO stanchion_owner', 'stanchion.make_partitions'::regproc::oid::regprocedure); END $$;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s OWNER TO stanchion_owner', 'stanchion.drop_partitions'::regproc::oid::regprocedure); END $$;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s OWNER TO stanchion_owner', 'stanchion.remove_history'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.event_xid TO stanchion_engine;

GRANT EXECUTE ON FUNCTION stanchion.clock, stanchion.refuse_change TO stanchion_owner;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.abandon_versions'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.abandon_versions TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.act_for_job'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.act_for_job TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.answers_of'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.answers_of TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.approvals_for'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.approvals_for TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.ask'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.ask TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.ask_removals'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.ask_removals TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.audit_text'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.audit_text TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.authenticate'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.authenticate TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.authenticate_session'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.authenticate_session TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.begin_artifact'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.begin_artifact TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.begin_removals'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.begin_removals TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.begin_sign_in'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.begin_sign_in TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.begin_upload'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.begin_upload TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.branches_before'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.branches_before TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.bury'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.bury TO stanchion_worker, stanchion_task_service, stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.cancel_by_message'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.cancel_by_message TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.cancel_task'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.cancel_task TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.claim_deliveries'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.claim_deliveries TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.claim_maintenance'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.claim_maintenance TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.claim_redrive'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.claim_redrive TO stanchion_task_service;

GRANT EXECUTE ON FUNCTION stanchion.clock TO stanchion_task_service, stanchion_orchestrator, stanchion_relay, stanchion_worker, stanchion_maintenance, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.compensate_operation'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.compensate_operation TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.complete'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.complete TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.complete_with_plan'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.complete_with_plan TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.create_job'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.create_job TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.create_key'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.create_key TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.create_signing_key'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.create_signing_key TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.create_tenant'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.create_tenant TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.create_webhook'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.create_webhook TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.delete_artifact'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.delete_artifact TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.disable_person'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.disable_person TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.drain_worker'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.drain_worker TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.drop_partitions'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.drop_partitions TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.due_expansions'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.due_expansions TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.due_items'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.due_items TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.edit_approval'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.edit_approval TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.end_cancelled'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.end_cancelled TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.end_early'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.end_early TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.end_in_doubt'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.end_in_doubt TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.end_probe'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.end_probe TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.end_session'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.end_session TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.ensure_person'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.ensure_person TO stanchion_task_service;

GRANT EXECUTE ON FUNCTION stanchion.event_xid TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.expand'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.expand TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.fail'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.fail TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.fan_before'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.fan_before TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.find_artifact'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.find_artifact TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.find_ready'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.find_ready TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.find_steps'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.find_steps TO stanchion_worker, stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.find_submitted'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.find_submitted TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.find_value'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.find_value TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.finish_delivery'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.finish_delivery TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.finish_maintenance'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.finish_maintenance TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.fire_timers'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.fire_timers TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.flip_artifact'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.flip_artifact TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.flip_upload'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.flip_upload TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.fold_samples'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.fold_samples TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.forget_maintenance'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.forget_maintenance TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.forget_removals'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.forget_removals TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.gathers_of'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.gathers_of TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.get_blob'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.get_blob TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.get_dead_letter'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.get_dead_letter TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.get_workflow'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.get_workflow TO stanchion_task_service, stanchion_orchestrator, stanchion_relay, stanchion_worker, stanchion_maintenance, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.give_back'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.give_back TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.give_back_unheld'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.give_back_unheld TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.has_lapsed'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.has_lapsed TO stanchion_task_service, stanchion_dashboard, stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.input_of'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.input_of TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.keep_maintenance'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.keep_maintenance TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.lease'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.lease TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.list_dead_letters'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.list_dead_letters TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.list_deliveries'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.list_deliveries TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.list_keys'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.list_keys TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.list_people'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.list_people TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.list_sessions'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.list_sessions TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.list_signing_keys'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.list_signing_keys TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.list_teams'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.list_teams TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.list_webhooks'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.list_webhooks TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.make_partitions'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.make_partitions TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.mark_error'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.mark_error TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.miscounted_barriers'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.miscounted_barriers TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.next_failures'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.next_failures TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.next_redrives'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.next_redrives TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.next_tenant'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.next_tenant TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.nodes_of'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.nodes_of TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.note_durations'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.note_durations TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.note_failures'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.note_failures TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.note_lag'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.note_lag TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.note_redriven'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.note_redriven TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.note_removed'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.note_removed TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.offer_ready'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.offer_ready TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.op_dispatch'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.op_dispatch TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.op_prepare'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.op_prepare TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.op_probed'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.op_probed TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.op_settle'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.op_settle TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.op_to_undo'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.op_to_undo TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.open_barrier'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.open_barrier TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.open_session'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.open_session TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.ops_in_doubt'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.ops_in_doubt TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.outbox_lag'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.outbox_lag TO stanchion_relay, stanchion_orchestrator, stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.outbox_state'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.outbox_state TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.pause_queue'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.pause_queue TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.pause_task'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.pause_task TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.pause_webhook'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.pause_webhook TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.pin_artifact'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.pin_artifact TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.place_of'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.place_of TO stanchion_orchestrator, stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.plan_maintenance'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.plan_maintenance TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.post'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.post TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.probe_operation'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.probe_operation TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.put_aside'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.put_aside TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.put_blobs'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.put_blobs TO stanchion_worker, stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.put_in_team'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.put_in_team TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.read_blob'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.read_blob TO stanchion_task_service, stanchion_orchestrator, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.read_samples'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.read_samples TO stanchion_task_service, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.read_value'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.read_value TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.reap'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.reap TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.rebuild_rest'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.rebuild_rest TO stanchion_owner;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.rebuild_run'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.rebuild_run TO stanchion_owner;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.recount_barrier'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.recount_barrier TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.register_workflow'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.register_workflow TO stanchion_worker, stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.relay_park'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.relay_park TO stanchion_relay;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.relay_read'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.relay_read TO stanchion_relay;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.relay_sent'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.relay_sent TO stanchion_relay;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.relay_tick'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.relay_tick TO stanchion_relay;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.release_redrive'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.release_redrive TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_artifacts'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_artifacts TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_dead_letters'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_dead_letters TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_error_groups'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_error_groups TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_history'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_history TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_orphans'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_orphans TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_payloads'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_payloads TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_samples'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_samples TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_view'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_view TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_webhook'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_webhook TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.remove_workers'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.remove_workers TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.removed_version'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.removed_version TO stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.renew'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.renew TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.reopen_steps'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.reopen_steps TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.republish_task'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.republish_task TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.request_maintenance'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.request_maintenance TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.resend_delivery'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.resend_delivery TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.results_counts'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.results_counts TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.results_page'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.results_page TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.resume_queue'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.resume_queue TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.retry_task'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.retry_task TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.revoke_approval'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.revoke_approval TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.revoke_key'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.revoke_key TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.revoke_signing_key'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.revoke_signing_key TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.same_values'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.same_values TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.save_view'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.save_view TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.say_of'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.say_of TO stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.set_role'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.set_role TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.signing_key_of'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.signing_key_of TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.spend'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.spend TO stanchion_worker;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.stop_job'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.stop_job TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.submit'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.submit TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.sweep_barrier'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.sweep_barrier TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.sweep_run'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.sweep_run TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.take_in'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.take_in TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.take_lag_look'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.take_lag_look TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.take_sample'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.take_sample TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.take_sign_in'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.take_sign_in TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.tasks_with_tags'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.tasks_with_tags TO stanchion_task_service, stanchion_dashboard, stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.tell_operation'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.tell_operation TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.tenant_by_name'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.tenant_by_name TO stanchion_task_service, stanchion_orchestrator, stanchion_relay, stanchion_worker, stanchion_maintenance, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.tenant_names'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.tenant_names TO stanchion_task_service, stanchion_orchestrator, stanchion_relay, stanchion_worker, stanchion_maintenance, stanchion_dashboard;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.trim_deliveries'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.trim_deliveries TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.trim_inbox'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.trim_inbox TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.vote'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.vote TO stanchion_task_service;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.watch_job'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.watch_job TO stanchion_maintenance;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.work_waiting'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.work_waiting TO stanchion_orchestrator;

DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.worker_seen'::regproc::oid::regprocedure); END $$;

GRANT EXECUTE ON FUNCTION stanchion.worker_seen TO stanchion_worker;

SELECT stanchion.guard_partition(c.relname) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'stanchion.event'::regclass;

RESET search_path;
RESET check_function_bodies;
