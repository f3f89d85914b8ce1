-- The audit: what was decided, answered, stopped, paid for, switched and written to GitHub, each row
-- chained to the one before it by its hash; where the chain ends and where it begins once its oldest
-- rows went into files. No row refers to a job: it outlives it.

CREATE TABLE audit (
    seq BIGINT PRIMARY KEY,
    at TIMESTAMPTZ NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    repository TEXT,
    subject TEXT,
    job_id TEXT,
    detail TEXT NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL
);

CREATE INDEX audit_by_job ON audit (job_id);

CREATE TABLE audit_chain (
    id BIGINT PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL,
    anchor_seq BIGINT NOT NULL,
    anchor_hash TEXT NOT NULL
);

-- What stays of jobs that were moved into files: what their calls cost, by day, and the last number of
-- a draft of each issue, since a number means one text for ever. And whose turn it is to move them.

CREATE TABLE ledger_days (
    day TEXT NOT NULL,
    repo_id BIGINT NOT NULL,
    installation_id BIGINT NOT NULL,
    subject TEXT NOT NULL,
    model TEXT NOT NULL,
    repo TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    micro_usd BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    unpriced_tokens BIGINT NOT NULL,
    PRIMARY KEY (day, repo_id, installation_id, subject, model)
);

CREATE INDEX ledger_days_by_subject ON ledger_days (repo_id, subject);

CREATE TABLE draft_numbers (
    repo_id BIGINT NOT NULL,
    subject TEXT NOT NULL,
    last_number BIGINT NOT NULL,
    PRIMARY KEY (repo_id, subject)
);

CREATE TABLE upkeep (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    held_until TIMESTAMPTZ NOT NULL
);

-- Removing a job looks for what refers to it.
CREATE INDEX schedule_fires_by_job ON schedule_fires (job_id);

CREATE INDEX drafts_by_confirmed_job ON drafts (confirmed_job);

CREATE INDEX milestones_by_holder ON milestones (holder);
