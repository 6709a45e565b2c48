"""What each guard asks of a change besides that it is a legal transition: templates of SQL, rendered into triggers."""

from __future__ import annotations

STEP_RULES = """
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
  NEW.proof := 0;"""
VERSIONED = """
  IF NEW.version <> OLD.version + (CASE WHEN NEW.state <> OLD.state THEN 1 ELSE 0 END) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the version of a {table} rises by one with each transition';
  END IF;"""
ATTEMPT_RULES = """
  IF OLD.ended_at IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'an attempt that ended is immutable';
  END IF;
  IF OLD.fence IS DISTINCT FROM (SELECT s.fence FROM stanchion.step s WHERE s.step_id = OLD.step_id AND s.tenant_id = OLD.tenant_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST003', MESSAGE = format('fence %s is not the current one of its step', OLD.fence);
  END IF;"""
OPERATION_RULES = """
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
  NEW.proof := 0;"""
APPROVAL_RULES = (
    VERSIONED.format(table="approval")
    + """
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
  END IF;"""
)
ARTIFACT_RULES = (
    VERSIONED.format(table="artifact_version")
    + """
  IF (NEW.made_from, NEW.created_at) IS DISTINCT FROM (OLD.made_from, OLD.created_at)
    OR ((NEW.number, NEW.sha256, NEW.size, NEW.available_at) IS DISTINCT FROM (OLD.number, OLD.sha256, OLD.size, OLD.available_at) AND NOT (OLD.state = 'pending' AND NEW.state = 'available')) THEN
    RAISE EXCEPTION USING ERRCODE = 'ST004', MESSAGE = 'the content of an artifact_version never changes';
  END IF;
  IF NEW.state = 'available' AND OLD.state = 'pending' AND OLD.fence IS NOT NULL THEN
    PERFORM FROM stanchion.step s WHERE s.step_id = OLD.step_id AND s.tenant_id = OLD.tenant_id AND s.fence = OLD.fence AND s.state IN ('leased', 'running') FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'ST003', MESSAGE = format('stale fence %s: the lease that began this artifact_version is over', OLD.fence);
    END IF;
  END IF;"""
)
RULES = {
    "step": STEP_RULES,
    "attempt": ATTEMPT_RULES,
    "operation": OPERATION_RULES,
    "artifact_version": ARTIFACT_RULES,
    "approval": APPROVAL_RULES,
}
"""The rest of a guard, behind its transitions: versions, proofs, and what a move needs to be known."""
