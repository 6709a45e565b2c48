-- The whole state of the press. `seq` is the order in which things became true.
CREATE TABLE IF NOT EXISTS publication (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    title TEXT NOT NULL,
    payload TEXT NOT NULL,
    receipt TEXT NOT NULL,
    retraction TEXT  -- the receipt of the retraction: what has one is no longer out
) STRICT;
CREATE INDEX IF NOT EXISTS publication_by_channel ON publication (channel, seq);

CREATE TABLE IF NOT EXISTS channel (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT;

-- One row for each time that work was really done: never changed, never removed.
CREATE TABLE IF NOT EXISTS execution (
    seq INTEGER PRIMARY KEY,
    work TEXT NOT NULL CHECK (work IN ('publish', 'retract')),
    publication_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    key TEXT,
    payload_hash TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS execution_by_key ON execution (key);

CREATE TABLE IF NOT EXISTS remembered_key (
    key TEXT PRIMARY KEY,
    work TEXT NOT NULL CHECK (work IN ('publish', 'retract')),
    payload_hash TEXT NOT NULL,
    receipt TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;

-- `late_order` is what a late request wants, until `due`, when it arrives: it outlives the process, as it would in a network.
CREATE TABLE IF NOT EXISTS request (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    channel TEXT,
    key TEXT,
    payload_hash TEXT,
    fault TEXT,
    outcome TEXT NOT NULL,
    status INTEGER,
    due REAL,
    late_order TEXT,
    CONSTRAINT late_has_a_time CHECK ((late_order IS NULL) OR (due IS NOT NULL))
) STRICT;
CREATE INDEX IF NOT EXISTS request_by_key ON request (key);
CREATE INDEX IF NOT EXISTS request_late ON request (due) WHERE late_order IS NOT NULL;

CREATE TABLE IF NOT EXISTS fault (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    times INTEGER NOT NULL,
    fired INTEGER NOT NULL DEFAULT 0,
    seconds REAL,
    channel TEXT,
    key TEXT,
    method TEXT,
    at TEXT NOT NULL,
    CONSTRAINT fires_at_most_its_times CHECK (fired BETWEEN 0 AND times)
) STRICT;
