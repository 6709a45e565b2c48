"""A join written by hand for queues that have none: correct under at-least-once delivery, and as cheap as that can be.

A run has 16 slots, so that children on 16 connections rarely wait for each other's row. A child sets its own bit in its
slot: one statement, one commit, and a second delivery of the child changes nothing. Only the child that fills a slot
pays for a transaction, which counts the slot once and, when it was the last one, enqueues the join with it.
"""

SLOTS = 16

SCHEMA = (
    "CREATE TABLE bench_run (run_id int PRIMARY KEY, open int NOT NULL, joins int NOT NULL DEFAULT 0)",
    """CREATE TABLE bench_slot (
        run_id int, slot int, size int NOT NULL, closed boolean NOT NULL DEFAULT false, arrived bytea NOT NULL,
        PRIMARY KEY (run_id, slot)) WITH (fillfactor = 20)""",
    "CREATE TABLE bench_note (kind text, number int, value double precision)",
)

OPEN_RUN = "INSERT INTO bench_run (run_id, open) VALUES ($1, least($2::int, 16))"
OPEN_SLOTS = """INSERT INTO bench_slot (run_id, slot, size, arrived)
    SELECT $1::int, s, ($2::int - s + 15) / 16, decode(repeat('00', $2::int / 128 + 1), 'hex')
      FROM generate_series(0, least($2::int, 16) - 1) s"""

# run, slot, place in the slot: is the slot full?
ARRIVE = """UPDATE bench_slot SET arrived = set_bit(arrived, $3::int, 1)
    WHERE run_id = $1::int AND slot = $2::int RETURNING bit_count(arrived) = size AND NOT closed"""
# In one transaction with enqueuing the join: run, slot.
CLOSE_SLOT = (
    "UPDATE bench_slot SET closed = true WHERE run_id = $1::int AND slot = $2::int AND NOT closed RETURNING true"
)
CLOSE_RUN = "UPDATE bench_run SET open = open - 1 WHERE run_id = $1::int RETURNING open = 0"

JOIN = "UPDATE bench_run SET joins = joins + 1 WHERE run_id = $1::int"
IS_JOINED = "SELECT joins > 0 FROM bench_run WHERE run_id = $1::int"
CHECK = """SELECT (SELECT sum(bit_count(arrived)) FROM bench_slot WHERE run_id = $1::int)::int,
    (SELECT joins FROM bench_run WHERE run_id = $1::int)"""

NOTE = "INSERT INTO bench_note (kind, number, value) VALUES ($1::text, $2::int, $3::double precision)"
COUNT_NOTES = "SELECT count(*)::int FROM bench_note WHERE kind = $1::text"
NOTES = "SELECT number, value FROM bench_note WHERE kind = $1::text ORDER BY number"
FORGET_NOTES = "DELETE FROM bench_note"
