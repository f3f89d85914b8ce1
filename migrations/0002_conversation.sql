-- What runs said to their models and what the models replied, entry by entry.

CREATE TABLE conversation (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    agent TEXT NOT NULL,
    seq BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (job_id, agent, seq)
);
