SET search_path = stanchion, pg_temp;

-- what people keep of lists, what jobs in bulk came to, errors in groups

CREATE TABLE stanchion.saved_view (
	view_id UUID NOT NULL,
	tenant_id UUID NOT NULL,
	owner TEXT NOT NULL,
	name TEXT NOT NULL,
	query TEXT NOT NULL,
	"order" TEXT DEFAULT 'newest' NOT NULL,
	shared BOOLEAN DEFAULT 'false' NOT NULL,
	created_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	updated_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	CONSTRAINT saved_view_pkey PRIMARY KEY (view_id, tenant_id),
	CONSTRAINT saved_view_tenant_id_owner_name_key UNIQUE (tenant_id, owner, name)
);

CREATE TABLE stanchion.job_target (
	job_id UUID NOT NULL,
	target_id UUID NOT NULL,
	tenant_id UUID NOT NULL,
	made_id UUID,
	outcome TEXT NOT NULL,
	code TEXT,
	what TEXT,
	at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	CONSTRAINT job_target_pkey PRIMARY KEY (job_id, target_id, tenant_id),
	CONSTRAINT outcomes_of_targets CHECK (outcome IN ('done', 'skipped', 'failed'))
);

CREATE TABLE stanchion.error_group (
	group_id UUID NOT NULL,
	tenant_id UUID NOT NULL,
	workflow TEXT NOT NULL,
	node TEXT NOT NULL,
	code TEXT NOT NULL,
	type TEXT,
	place TEXT,
	message TEXT NOT NULL,
	versions INTEGER[] NOT NULL,
	count BIGINT NOT NULL,
	failed BIGINT NOT NULL,
	first_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	last_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	example JSONB NOT NULL,
	example_step_id UUID NOT NULL,
	known BOOLEAN DEFAULT 'false' NOT NULL,
	note TEXT,
	link TEXT,
	assigned_to TEXT,
	marked_by TEXT,
	marked_at TIMESTAMP WITH TIME ZONE,
	CONSTRAINT error_group_pkey PRIMARY KEY (group_id, tenant_id)
)
 WITH (fillfactor = 70);

CREATE TABLE stanchion.error_member (
	run_id UUID NOT NULL,
	step_id UUID NOT NULL,
	tenant_id UUID NOT NULL,
	group_id UUID NOT NULL,
	fan_id UUID,
	worker_id UUID,
	failures BIGINT NOT NULL,
	first_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	last_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	CONSTRAINT error_member_pkey PRIMARY KEY (run_id, step_id, tenant_id)
);

CREATE TABLE stanchion.error_cursor (
	here BOOLEAN DEFAULT 'true' NOT NULL,
	xid xid8 DEFAULT '0' NOT NULL,
	event_id BIGINT DEFAULT '0' NOT NULL,
	CONSTRAINT error_cursor_pkey PRIMARY KEY (here),
	CONSTRAINT failures_are_counted_in_one_order CHECK (here)
);

CREATE INDEX error_group_age ON stanchion.error_group (last_at);

CREATE INDEX error_group_lately ON stanchion.error_group (tenant_id, last_at DESC, group_id DESC);

CREATE INDEX error_member_of_group ON stanchion.error_member (tenant_id, group_id, step_id DESC);

CREATE INDEX job_target_lately ON stanchion.job_target (job_id, at) WHERE outcome = 'done';

INSERT INTO stanchion.error_cursor DEFAULT VALUES;

-- failures are few: the index is small, and is made in one pass over the events

CREATE INDEX event_failed ON stanchion.event (xid, event_id) WHERE kind IN ('StepFailed', 'StepRetryScheduled');
