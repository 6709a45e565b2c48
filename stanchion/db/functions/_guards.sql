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
