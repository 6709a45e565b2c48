-- What effects outside, artifacts, approvals, people and webhooks add to tables. Functions, triggers, policies and grants follow in
-- a script of their own. Immutable: a database that is somewhere may have run it.

-- steps may be in doubt, and a step may undo what another one did
ALTER TABLE stanchion.step ADD COLUMN doubts SMALLINT DEFAULT '0' NOT NULL;
ALTER TABLE stanchion.step
  DROP CONSTRAINT kinds_of_steps,
  DROP CONSTRAINT states_of_steps,
  ADD CONSTRAINT kinds_of_steps CHECK (kind IN ('step', 'fan', 'undo')),
  ADD CONSTRAINT states_of_steps CHECK (state IN ('pending', 'ready', 'leased', 'running', 'waiting', 'retry_wait', 'unknown', 'reconciling', 'succeeded', 'failed', 'cancelled', 'skipped')),
  ADD CONSTRAINT what_is_in_doubt_is_never_settled CHECK (doubts = 0 OR state IN ('leased', 'running', 'reconciling', 'unknown')),
  ADD CONSTRAINT only_doubts_make_a_step_unknown CHECK (state <> 'unknown' OR doubts > 0);
ALTER TABLE stanchion.timer
  DROP CONSTRAINT kinds_of_timers,
  ADD CONSTRAINT kinds_of_timers CHECK (kind IN ('retry', 'expand', 'barrier_deadline', 'task_deadline', 'start_deadline', 'step_deadline', 'probe', 'approval'));

-- a task may wait for people, and end with their no
ALTER TABLE stanchion.task
  DROP CONSTRAINT states_of_tasks,
  DROP CONSTRAINT a_task_has_an_end_only_when_it_ended,
  ADD CONSTRAINT states_of_tasks CHECK (state IN ('accepted', 'running', 'awaiting_approval', 'cancelling', 'completed', 'failed', 'cancelled', 'rejected')),
  ADD CONSTRAINT a_task_has_an_end_only_when_it_ended CHECK ((ended_at IS NOT NULL) = (state IN ('completed', 'failed', 'cancelled', 'rejected')));
ALTER TABLE stanchion.run
  DROP CONSTRAINT a_run_winds_down_to_an_outcome,
  ADD CONSTRAINT a_run_winds_down_to_an_outcome CHECK (state <> 'cancelling' OR coalesce(outcome, '') IN ('failed', 'cancelled', 'rejected'));

-- the audit log has lanes: what is there already is lane 0
ALTER TABLE stanchion.audit
  ADD COLUMN lane SMALLINT DEFAULT '0' NOT NULL,
  ADD CONSTRAINT lanes_of_the_audit_log CHECK (lane BETWEEN 0 AND 8);
CREATE INDEX audit_lanes ON stanchion.audit (tenant_id, lane, audit_id);

-- the ledger of effects outside
CREATE TABLE stanchion.operation (
  tenant_id UUID NOT NULL,
  operation_id UUID NOT NULL,
  task_id UUID NOT NULL,
  run_id UUID NOT NULL,
  step_id UUID NOT NULL,
  fence BIGINT NOT NULL,
  proof BIGINT DEFAULT '0' NOT NULL,
  scope_id UUID NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  state TEXT NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  payload JSONB,
  payload_blob BYTEA,
  payload_hash BYTEA NOT NULL,
  request_key TEXT NOT NULL,
  reach TEXT NOT NULL,
  can_query BOOLEAN NOT NULL,
  keeps_key_ms BIGINT,
  lands_within_ms BIGINT,
  undo_kind TEXT,
  compensates UUID,
  needs_approval BOOLEAN DEFAULT 'false' NOT NULL,
  approval_id UUID,
  cost JSONB,
  sends SMALLINT DEFAULT '0' NOT NULL,
  probes SMALLINT DEFAULT '0' NOT NULL,
  receipt JSONB,
  provider_id TEXT,
  error JSONB,
  settled_by TEXT,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  dispatched_at TIMESTAMP WITH TIME ZONE,
  key_until TIMESTAMP WITH TIME ZONE,
  lands_until TIMESTAMP WITH TIME ZONE,
  unknown_since TIMESTAMP WITH TIME ZONE,
  verified_at TIMESTAMP WITH TIME ZONE,
  confirmed_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT operation_pkey PRIMARY KEY (operation_id, tenant_id),
  CONSTRAINT reaches_of_operations CHECK (reach IN ('reversible', 'compensatable', 'irreversible')),
  CONSTRAINT a_payload_is_bound_by_its_sha256 CHECK (octet_length(payload_hash) = 32),
  CONSTRAINT a_proof_of_an_operation_is_never_stored CHECK (proof = 0),
  CONSTRAINT a_key_has_at_most_200_characters CHECK (length(key) BETWEEN 1 AND 200),
  CONSTRAINT times_of_operations_are_positive CHECK (keeps_key_ms IS NULL OR keeps_key_ms > 0 AND (lands_within_ms IS NULL OR lands_within_ms > 0)),
  CONSTRAINT states_of_operations CHECK (state IN ('prepared', 'dispatched', 'confirmed', 'unknown', 'not_done', 'refused', 'compensated')),
  CONSTRAINT an_operation_was_sent_when_it_is_known_of CHECK (state IN ('prepared', 'refused', 'not_done') OR sends > 0),
  CONSTRAINT a_confirmed_operation_has_a_time CHECK ((state IN ('confirmed', 'compensated')) = (confirmed_at IS NOT NULL))
) WITH (fillfactor = 70);

CREATE TABLE stanchion.operation_probe (
  tenant_id UUID NOT NULL,
  operation_id UUID NOT NULL,
  number SMALLINT NOT NULL,
  by TEXT NOT NULL,
  verdict TEXT NOT NULL,
  conclusive BOOLEAN NOT NULL,
  detail JSONB,
  at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  CONSTRAINT operation_probe_pkey PRIMARY KEY (operation_id, number, tenant_id),
  CONSTRAINT verdicts_of_probes CHECK (verdict IN ('done', 'not_done', 'cant_tell'))
);

CREATE INDEX operation_blob ON stanchion.operation (payload_blob) WHERE payload_blob IS NOT NULL;
CREATE UNIQUE INDEX operation_compensation ON stanchion.operation (compensates, tenant_id) WHERE compensates IS NOT NULL;
CREATE UNIQUE INDEX operation_key ON stanchion.operation (scope_id, kind, key, tenant_id);
CREATE INDEX operation_of_run ON stanchion.operation (run_id, operation_id);
CREATE INDEX operation_of_step ON stanchion.operation (step_id);
CREATE INDEX operation_of_task ON stanchion.operation (task_id, operation_id);
CREATE UNIQUE INDEX operation_request_key ON stanchion.operation (request_key, tenant_id);
CREATE INDEX operation_unsettled ON stanchion.operation (tenant_id, unknown_since) WHERE state IN ('dispatched', 'unknown');

-- artifacts: versions, and content that is about to leave the store
CREATE TABLE stanchion.artifact (
  tenant_id UUID NOT NULL,
  artifact_id UUID DEFAULT uuidv7() NOT NULL,
  task_id UUID NOT NULL,
  name TEXT NOT NULL,
  latest INTEGER DEFAULT '0' NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  CONSTRAINT artifact_pkey PRIMARY KEY (artifact_id, tenant_id),
  CONSTRAINT artifact_task_id_name_tenant_id_key UNIQUE (task_id, name, tenant_id),
  CONSTRAINT an_artifact_has_a_name_of_bounded_length CHECK (length(name) BETWEEN 1 AND 200),
  CONSTRAINT versions_of_an_artifact_count_from_one CHECK (latest >= 0)
) WITH (fillfactor = 70);

CREATE TABLE stanchion.artifact_version (
  tenant_id UUID NOT NULL,
  version_id UUID DEFAULT uuidv7() NOT NULL,
  artifact_id UUID NOT NULL,
  task_id UUID NOT NULL,
  run_id UUID NOT NULL,
  step_id UUID,
  fence BIGINT,
  actor TEXT,
  number INTEGER,
  version BIGINT DEFAULT '0' NOT NULL,
  state TEXT NOT NULL,
  sha256 BYTEA,
  size BIGINT,
  media_type TEXT NOT NULL,
  made_from UUID[] DEFAULT '{}' NOT NULL,
  outlives BOOLEAN DEFAULT 'false' NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  available_at TIMESTAMP WITH TIME ZONE,
  deleted_at TIMESTAMP WITH TIME ZONE,
  pinned_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT artifact_version_pkey PRIMARY KEY (version_id, tenant_id),
  CONSTRAINT content_is_named_by_its_sha256 CHECK (octet_length(sha256) = 32),
  CONSTRAINT content_has_a_size CHECK (size >= 0),
  CONSTRAINT a_version_is_of_a_lease_or_of_somebody CHECK ((step_id IS NULL) = (fence IS NULL) AND (step_id IS NULL) = (actor IS NOT NULL)),
  CONSTRAINT states_of_artifact_versions CHECK (state IN ('pending', 'available', 'deleted')),
  CONSTRAINT an_available_version_has_its_content CHECK (state <> 'available' OR (number IS NOT NULL AND sha256 IS NOT NULL AND size IS NOT NULL)),
  CONSTRAINT a_pending_version_has_no_number CHECK (state <> 'pending' OR number IS NULL),
  CONSTRAINT a_version_is_numbered_when_it_becomes_available CHECK ((number IS NOT NULL) = (available_at IS NOT NULL)),
  CONSTRAINT a_version_has_an_end_only_when_it_was_deleted CHECK ((deleted_at IS NOT NULL) = (state = 'deleted')),
  CONSTRAINT only_an_available_version_is_pinned CHECK (pinned_at IS NULL OR state = 'available')
) WITH (fillfactor = 70);

CREATE TABLE stanchion.object_removal (
  tenant_id UUID NOT NULL,
  sha256 BYTEA NOT NULL,
  asked_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  begun_at TIMESTAMP WITH TIME ZONE,
  removed_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT object_removal_pkey PRIMARY KEY (sha256, tenant_id),
  CONSTRAINT an_object_is_named_by_its_sha256 CHECK (octet_length(sha256) = 32),
  CONSTRAINT a_removal_begins_before_it_ends CHECK (removed_at IS NULL OR begun_at IS NOT NULL)
);

CREATE INDEX artifact_content ON stanchion.artifact_version (sha256) WHERE state = 'available';
CREATE UNIQUE INDEX artifact_version_number ON stanchion.artifact_version (artifact_id, number, tenant_id);
CREATE INDEX artifact_version_of_run ON stanchion.artifact_version (run_id);
CREATE INDEX artifact_version_of_task ON stanchion.artifact_version (task_id, version_id);
CREATE INDEX artifact_version_outlives ON stanchion.artifact_version (version_id) WHERE outlives AND pinned_at IS NULL AND state = 'available';
CREATE INDEX artifact_version_pending ON stanchion.artifact_version (created_at) WHERE state = 'pending';
CREATE INDEX object_removal_ended ON stanchion.object_removal (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX object_removal_open ON stanchion.object_removal (asked_at) WHERE removed_at IS NULL;

-- people, their teams and sessions
CREATE TABLE stanchion.person (
  person_id UUID NOT NULL,
  tenant_id UUID NOT NULL,
  name TEXT NOT NULL,
  display_name TEXT NOT NULL,
  email TEXT,
  issuer TEXT,
  subject TEXT,
  role TEXT NOT NULL,
  rights TEXT[] DEFAULT '{}' NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  disabled_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT person_pkey PRIMARY KEY (person_id, tenant_id),
  CONSTRAINT person_tenant_id_name_key UNIQUE (tenant_id, name),
  CONSTRAINT person_tenant_id_issuer_subject_key UNIQUE (tenant_id, issuer, subject),
  CONSTRAINT a_person_has_a_handle CHECK (name ~ '^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$'),
  CONSTRAINT roles_of_people CHECK (role IN ('viewer', 'operator', 'approver', 'admin', 'platform')),
  CONSTRAINT only_payloads_are_a_right_of_their_own CHECK (rights <@ ARRAY['payload.read']),
  CONSTRAINT a_subject_has_an_issuer CHECK ((issuer IS NULL) = (subject IS NULL))
);

CREATE TABLE stanchion.team_member (
  tenant_id UUID NOT NULL,
  team TEXT NOT NULL,
  person_id UUID NOT NULL,
  added_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  CONSTRAINT team_member_pkey PRIMARY KEY (person_id, team, tenant_id),
  CONSTRAINT a_team_has_a_handle CHECK (team ~ '^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$')
);

CREATE TABLE stanchion.session (
  session_id UUID NOT NULL,
  tenant_id UUID NOT NULL,
  person_id UUID NOT NULL,
  kind TEXT NOT NULL,
  token_hash BYTEA NOT NULL,
  csrf_secret BYTEA NOT NULL,
  idle_seconds INTEGER NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  used_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  revoked_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT session_pkey PRIMARY KEY (session_id, tenant_id),
  CONSTRAINT session_token_hash_key UNIQUE (token_hash),
  CONSTRAINT kinds_of_sessions CHECK (kind IN ('browser', 'cli')),
  CONSTRAINT a_token_is_kept_as_its_hash CHECK (octet_length(token_hash) = 32),
  CONSTRAINT a_csrf_secret_has_32_bytes CHECK (octet_length(csrf_secret) = 32)
);

CREATE TABLE stanchion.sign_in (
  state_hash BYTEA NOT NULL,
  tenant_id UUID NOT NULL,
  binder_hash BYTEA NOT NULL,
  nonce TEXT NOT NULL,
  verifier TEXT NOT NULL,
  return_to TEXT NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  CONSTRAINT sign_in_pkey PRIMARY KEY (state_hash, tenant_id),
  CONSTRAINT a_sign_in_is_found_by_hashes CHECK (octet_length(state_hash) = 32 AND octet_length(binder_hash) = 32)
);

CREATE INDEX sessions_of_person ON stanchion.session (person_id);
CREATE INDEX sign_ins_by_end ON stanchion.sign_in (expires_at);
CREATE INDEX teams_of_tenant ON stanchion.team_member (tenant_id, team);

-- approvals: what people are asked, and what each of them says
CREATE TABLE stanchion.approval (
  tenant_id UUID NOT NULL,
  approval_id UUID NOT NULL,
  task_id UUID NOT NULL,
  run_id UUID NOT NULL,
  step_id UUID NOT NULL,
  fence BIGINT NOT NULL,
  node TEXT NOT NULL,
  state TEXT NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  question TEXT NOT NULL,
  summary TEXT,
  payload JSONB,
  payload_hash BYTEA NOT NULL,
  operation_kind TEXT,
  operation_key TEXT,
  resource_id UUID,
  resource_sha256 BYTEA,
  people TEXT[] DEFAULT '{}' NOT NULL,
  teams TEXT[] DEFAULT '{}' NOT NULL,
  needs SMALLINT NOT NULL,
  four_eyes BOOLEAN NOT NULL,
  on_timeout TEXT NOT NULL,
  on_rejected TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  replaces UUID,
  edited_by TEXT,
  decided_by TEXT,
  reason TEXT,
  spent_by UUID,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  decided_at TIMESTAMP WITH TIME ZONE,
  spent_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT approval_pkey PRIMARY KEY (approval_id, tenant_id),
  CONSTRAINT an_approval_is_bound_to_a_sha256 CHECK (octet_length(payload_hash) = 32),
  CONSTRAINT a_resource_is_bound_with_its_content CHECK ((resource_id IS NULL) = (resource_sha256 IS NULL)),
  CONSTRAINT a_key_belongs_to_an_operation CHECK (operation_key IS NULL OR operation_kind IS NOT NULL),
  CONSTRAINT an_approval_needs_somebody CHECK (needs BETWEEN 1 AND 20),
  CONSTRAINT silence_never_approves CHECK (on_timeout IN ('reject', 'fail')),
  CONSTRAINT a_no_ends_the_task_or_not CHECK (on_rejected IN ('end', 'continue')),
  CONSTRAINT who_replaces_an_approval_is_named CHECK ((replaces IS NULL) = (edited_by IS NULL)),
  CONSTRAINT states_of_approvals CHECK (state IN ('requested', 'granted', 'spent', 'rejected', 'expired', 'revoked', 'replaced')),
  CONSTRAINT an_approval_has_a_time_once_it_is_decided CHECK ((state = 'requested') = (decided_at IS NULL)),
  CONSTRAINT a_spent_approval_names_its_operation CHECK (state <> 'spent' OR spent_by IS NOT NULL),
  CONSTRAINT only_what_was_spent_names_an_operation CHECK (spent_by IS NULL OR state IN ('spent', 'revoked'))
) WITH (fillfactor = 70);

CREATE TABLE stanchion.approval_vote (
  tenant_id UUID NOT NULL,
  approval_id UUID NOT NULL,
  number SMALLINT NOT NULL,
  person_id UUID NOT NULL,
  subject TEXT NOT NULL,
  vote TEXT NOT NULL,
  payload_hash BYTEA NOT NULL,
  comment TEXT,
  delegate_to TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  CONSTRAINT approval_vote_pkey PRIMARY KEY (approval_id, number, tenant_id),
  CONSTRAINT what_can_be_said CHECK (vote IN ('approve', 'reject', 'ask_back', 'answer', 'delegate')),
  CONSTRAINT a_delegation_names_somebody CHECK ((vote = 'delegate') = (delegate_to IS NOT NULL))
);

CREATE INDEX approval_newest ON stanchion.approval (tenant_id, approval_id);
CREATE UNIQUE INDEX approval_of_step ON stanchion.approval (step_id, fence, tenant_id) WHERE state <> 'replaced';
CREATE INDEX approval_of_task ON stanchion.approval (task_id, approval_id);
CREATE INDEX approval_open ON stanchion.approval (tenant_id, approval_id) WHERE state = 'requested';
CREATE INDEX approval_open_of_run ON stanchion.approval (run_id) WHERE state = 'requested';
CREATE INDEX approval_spent ON stanchion.approval (spent_by, tenant_id) WHERE spent_by IS NOT NULL;
CREATE INDEX approval_passed_on ON stanchion.approval_vote (tenant_id, delegate_to) WHERE delegate_to IS NOT NULL;
CREATE UNIQUE INDEX approval_one_say_each ON stanchion.approval_vote (approval_id, person_id, tenant_id) WHERE vote IN ('approve', 'reject', 'delegate');

-- what tasks may spend and have spent
CREATE TABLE stanchion.budget (
  tenant_id UUID NOT NULL,
  task_id UUID NOT NULL,
  unit TEXT NOT NULL,
  allowed NUMERIC,
  spent NUMERIC DEFAULT '0' NOT NULL,
  CONSTRAINT budget_pkey PRIMARY KEY (task_id, unit, tenant_id),
  CONSTRAINT a_limit_is_a_positive_number CHECK (allowed > 0 AND allowed < 'Infinity'),
  CONSTRAINT what_is_spent_never_falls_below_zero CHECK (spent >= 0 AND spent < 'Infinity')
) WITH (fillfactor = 70);

CREATE TABLE stanchion.spending (
  tenant_id UUID NOT NULL,
  spending_id UUID NOT NULL,
  task_id UUID NOT NULL,
  run_id UUID NOT NULL,
  step_id UUID NOT NULL,
  fence BIGINT,
  operation_id UUID,
  unit TEXT NOT NULL,
  amount NUMERIC NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  CONSTRAINT spending_pkey PRIMARY KEY (spending_id, unit, tenant_id),
  CONSTRAINT only_an_operation_gives_back CHECK (amount > 0 AND amount < 'Infinity' OR amount < 0 AND amount > '-Infinity' AND operation_id IS NOT NULL)
);

CREATE INDEX spending_of_operation ON stanchion.spending (operation_id) WHERE operation_id IS NOT NULL;
CREATE INDEX spending_of_run ON stanchion.spending (run_id);
CREATE INDEX spending_of_task ON stanchion.spending (task_id, unit);

-- webhooks, and what they are to be told
CREATE TABLE stanchion.webhook (
  webhook_id UUID NOT NULL,
  tenant_id UUID NOT NULL,
  url TEXT NOT NULL,
  events TEXT[] NOT NULL,
  master TEXT NOT NULL,
  state TEXT DEFAULT 'active' NOT NULL,
  created_by TEXT NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  changed_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  CONSTRAINT webhook_pkey PRIMARY KEY (webhook_id, tenant_id),
  CONSTRAINT states_of_webhooks CHECK (state IN ('active', 'paused', 'failed')),
  CONSTRAINT a_webhook_wants_something CHECK (cardinality(events) BETWEEN 1 AND 50)
);

CREATE TABLE stanchion.webhook_delivery (
  delivery_id UUID NOT NULL,
  tenant_id UUID NOT NULL,
  webhook_id UUID NOT NULL,
  event_id UUID NOT NULL,
  type TEXT NOT NULL,
  subject TEXT NOT NULL,
  body JSONB NOT NULL,
  state TEXT DEFAULT 'due' NOT NULL,
  fence BIGINT DEFAULT '0' NOT NULL,
  tries INTEGER DEFAULT '0' NOT NULL,
  status INTEGER,
  error TEXT,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE,
  give_up_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
  ended_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT webhook_delivery_pkey PRIMARY KEY (delivery_id, tenant_id),
  CONSTRAINT webhook_delivery_webhook_id_event_id_tenant_id_key UNIQUE (webhook_id, event_id, tenant_id),
  CONSTRAINT states_of_webhook_deliveries CHECK (state IN ('due', 'sent', 'failed')),
  CONSTRAINT a_delivery_has_an_end_only_when_it_ended CHECK ((ended_at IS NULL) = (state = 'due')),
  CONSTRAINT what_has_ended_is_not_due CHECK (state = 'due' OR due_at IS NULL)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000, fillfactor = 70);

CREATE INDEX webhooks_of_tenant ON stanchion.webhook (tenant_id);
CREATE INDEX deliveries_due ON stanchion.webhook_delivery (due_at) WHERE state = 'due' AND due_at IS NOT NULL;
CREATE INDEX deliveries_ended ON stanchion.webhook_delivery (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX deliveries_of_tenant ON stanchion.webhook_delivery (tenant_id, delivery_id);
CREATE INDEX deliveries_of_webhook ON stanchion.webhook_delivery (webhook_id, due_at) WHERE state = 'due';
