-- Deliveries, repositories, jobs, their logs, effects and checkpoints.
-- One text for SQLite and PostgreSQL: ids and JSON are TEXT, times are UTC and come from the
-- program, bytes are BYTEA (SQLite keeps any value in a column of any type word).

CREATE TABLE deliveries (
    guid TEXT PRIMARY KEY,
    semantic_key TEXT NOT NULL UNIQUE,
    event TEXT NOT NULL,
    action TEXT NOT NULL,
    repo_id BIGINT,
    body_sha256 TEXT NOT NULL,
    body TEXT NOT NULL,
    received_at TIMESTAMPTZ NOT NULL,
    outcome TEXT NOT NULL
);

CREATE INDEX deliveries_by_age ON deliveries (received_at);

CREATE TABLE repositories (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    installation_id BIGINT NOT NULL,
    active BOOLEAN NOT NULL
);

CREATE INDEX repositories_by_installation ON repositories (installation_id);

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    repo_id BIGINT NOT NULL,
    repo TEXT NOT NULL,
    installation_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    lane TEXT NOT NULL,
    dedupe_key TEXT,
    state TEXT NOT NULL,
    priority BIGINT NOT NULL,
    run_at TIMESTAMPTZ NOT NULL,
    attempt BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    lost_leases BIGINT NOT NULL,
    round BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    lease_token TEXT,
    lease_owner TEXT,
    lease_until TIMESTAMPTZ,
    request TEXT NOT NULL,
    pins TEXT NOT NULL,
    outcome TEXT,
    reason TEXT,
    cancel_requested_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ
);

CREATE UNIQUE INDEX jobs_one_per_dedupe_key ON jobs (dedupe_key)
    WHERE state NOT IN ('done', 'dead', 'cancelled');

CREATE UNIQUE INDEX jobs_one_active_per_lane ON jobs (repo_id, lane)
    WHERE state IN ('leased', 'waiting', 'publishing');

CREATE INDEX jobs_ready ON jobs (priority DESC, run_at, id)
    WHERE state = 'queued';

CREATE INDEX jobs_held ON jobs (lease_until)
    WHERE state IN ('leased', 'publishing');

CREATE INDEX jobs_by_subject ON jobs (repo_id, subject);

CREATE TABLE job_events (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    seq BIGINT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    fence BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (job_id, seq)
);

CREATE TABLE effects (
    id TEXT PRIMARY KEY,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    dedupe_key TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    fence BIGINT NOT NULL,
    sent_at TIMESTAMPTZ,
    tries BIGINT NOT NULL,
    remote_id TEXT,
    problem TEXT,
    UNIQUE (job_id, seq)
);

CREATE TABLE checkpoints (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    kind TEXT NOT NULL,
    seq BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (job_id, kind)
);
