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
