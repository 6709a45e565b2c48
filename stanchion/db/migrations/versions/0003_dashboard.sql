SET search_path = stanchion, pg_temp;

-- the order in which pages list tasks, by what people ask for

CREATE INDEX task_open ON stanchion.task (tenant_id, task_id DESC) WHERE ended_at IS NULL;
CREATE INDEX task_closed ON stanchion.task (tenant_id, state, task_id DESC) WHERE ended_at IS NOT NULL;
CREATE INDEX task_of_workflow ON stanchion.task (tenant_id, workflow, task_id DESC);
CREATE INDEX task_tags ON stanchion.task USING gin (tags) WHERE tags <> '{}';

-- what was done to one thing

CREATE INDEX audit_of_target ON stanchion.audit (tenant_id, target, audit_id);

-- joins that wait for a person

CREATE INDEX barrier_held ON stanchion.barrier (tenant_id, barrier_id) WHERE state = 'waiting' AND on_failed = 'hold' AND failed > 0;

-- messages that are still parked

CREATE INDEX dead_letter_parked ON stanchion.dead_letter (tenant_id, dead_letter_id) WHERE redriven_at IS NULL;

-- what happened in the last seconds

CREATE INDEX event_lately ON stanchion.event USING brin (at) WITH (pages_per_range = 32, autosummarize = on);
