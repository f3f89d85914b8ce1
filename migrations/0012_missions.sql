-- The ledger of unattended runs, and what is told of them to a webhook.

ALTER TABLE jobs ADD COLUMN unattended BOOLEAN NOT NULL DEFAULT FALSE;

CREATE INDEX jobs_unattended ON jobs (finished_at)
    WHERE unattended;

CREATE TABLE missions (
    id TEXT PRIMARY KEY,
    ended_at TIMESTAMPTZ NOT NULL,
    repository TEXT NOT NULL,
    job_id TEXT,
    round BIGINT NOT NULL,
    state TEXT NOT NULL,
    failed BOOLEAN NOT NULL,
    body TEXT NOT NULL
);

CREATE UNIQUE INDEX missions_one_per_round ON missions (job_id, round);

CREATE INDEX missions_by_age ON missions (ended_at);

CREATE TABLE alerts (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    tries BIGINT NOT NULL,
    next_at TIMESTAMPTZ NOT NULL,
    body TEXT NOT NULL,
    problem TEXT
);

CREATE INDEX alerts_due ON alerts (next_at)
    WHERE state = 'pending';
