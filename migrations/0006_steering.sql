-- What people said to a job while it worked, without being asked.

CREATE TABLE instructions (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    seq BIGINT NOT NULL,
    source TEXT NOT NULL UNIQUE,
    by_login TEXT NOT NULL,
    words TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    taken_at TIMESTAMPTZ,
    PRIMARY KEY (job_id, seq)
);
