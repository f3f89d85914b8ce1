-- Queues of issues that are polled: each issue with what became of it, how far each queue was read,
-- and by whom it was switched on or off.

CREATE TABLE queue_items (
    source TEXT NOT NULL,
    repo_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    version TEXT NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    job_id TEXT REFERENCES jobs (id),
    asked_by TEXT,
    absent BIGINT NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (source, repo_id, number)
);

CREATE INDEX queue_items_by_job ON queue_items (job_id);

CREATE TABLE queue_cursors (
    source TEXT NOT NULL,
    repo_id BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    mark TEXT NOT NULL,
    selected BIGINT,
    open_items BIGINT,
    looked_at TIMESTAMPTZ,
    read_at TIMESTAMPTZ,
    next_at TIMESTAMPTZ NOT NULL,
    failures BIGINT NOT NULL,
    problem TEXT,
    PRIMARY KEY (source, repo_id)
);

CREATE TABLE autotask_switches (
    id TEXT PRIMARY KEY,
    repo TEXT NOT NULL,
    is_on BOOLEAN NOT NULL,
    by_whom TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL
);

CREATE INDEX autotask_switches_by_repo ON autotask_switches (repo, id);
