SET search_path = stanchion, pg_temp;

CREATE TABLE stanchion.queue_pause (
	tenant_id UUID NOT NULL,
	queue TEXT NOT NULL,
	reason TEXT NOT NULL,
	paused_by TEXT NOT NULL,
	since TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	CONSTRAINT queue_pause_pkey PRIMARY KEY (queue, tenant_id)
);

CREATE TABLE stanchion.sample (
	tenant_id UUID NOT NULL,
	seconds INTEGER NOT NULL,
	slot TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	body JSONB NOT NULL,
	taken_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	CONSTRAINT sample_pkey PRIMARY KEY (tenant_id, seconds, slot),
	CONSTRAINT samples_are_of_ten_seconds_or_five_minutes CHECK (seconds IN (10, 300))
);

CREATE INDEX sample_age ON stanchion.sample (seconds, slot);

CREATE TABLE stanchion.lag_look (
	here BOOLEAN DEFAULT 'true' NOT NULL,
	taken_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	taken_by TEXT NOT NULL,
	answered_at TIMESTAMP WITH TIME ZONE,
	failing_since TIMESTAMP WITH TIME ZONE,
	fault JSONB,
	CONSTRAINT lag_look_pkey PRIMARY KEY (here),
	CONSTRAINT one_look_at_the_broker_at_a_time CHECK (here),
	CONSTRAINT a_fault_has_a_beginning CHECK ((fault IS NULL) = (failing_since IS NULL))
)
 WITH (fillfactor = 20);

CREATE TABLE stanchion.consumer_group (
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	members TEXT[] NOT NULL,
	rebalances TIMESTAMP WITH TIME ZONE[] DEFAULT '{}' NOT NULL,
	since TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	seen_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	CONSTRAINT consumer_group_pkey PRIMARY KEY (name),
	CONSTRAINT states_of_consumer_groups CHECK (state IN ('steady', 'rebalancing', 'empty', 'unknown'))
)
 WITH (fillfactor = 20);

CREATE TABLE stanchion.consumer_lag (
	group_name TEXT NOT NULL,
	topic TEXT NOT NULL,
	partition INTEGER NOT NULL,
	end_offset BIGINT NOT NULL,
	committed BIGINT,
	rate_in FLOAT DEFAULT 0 NOT NULL,
	rate_out FLOAT DEFAULT 0 NOT NULL,
	owner TEXT,
	moved_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	seen_at TIMESTAMP WITH TIME ZONE DEFAULT stanchion.clock() NOT NULL,
	CONSTRAINT consumer_lag_pkey PRIMARY KEY (topic, group_name, partition)
)
 WITH (fillfactor = 50);

-- since when a step had waited for its grant, and what was refused lately

ALTER TABLE stanchion.attempt ADD COLUMN ready_at TIMESTAMP WITH TIME ZONE;

CREATE INDEX refused_lately ON stanchion.refused_write (at);
