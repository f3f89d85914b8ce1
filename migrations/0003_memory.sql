-- Questions that jobs wait with and what people said to them; what runs keep for later runs: the
-- memory of repositories and the trees of causes.

CREATE TABLE questions (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    seq BIGINT NOT NULL,
    round BIGINT NOT NULL,
    question TEXT NOT NULL,
    base_sha TEXT,
    asked_at TIMESTAMPTZ NOT NULL,
    answer_by TIMESTAMPTZ NOT NULL,
    taken_at TIMESTAMPTZ,
    expired_at TIMESTAMPTZ,
    PRIMARY KEY (job_id, seq)
);

CREATE TABLE answers (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    source TEXT NOT NULL,
    question BIGINT NOT NULL,
    by_login TEXT NOT NULL,
    words TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (job_id, source)
);

CREATE TABLE notes (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    written_by TEXT NOT NULL,
    written_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (scope, key)
);

CREATE TABLE causes (
    scope TEXT NOT NULL,
    tree TEXT NOT NULL,
    node BIGINT NOT NULL,
    parent BIGINT,
    hypothesis TEXT NOT NULL,
    status TEXT NOT NULL,
    evidence TEXT NOT NULL,
    written_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (scope, tree, node)
);
