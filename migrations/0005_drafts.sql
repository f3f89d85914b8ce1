-- Drafts of issues: what runs offered, what a person confirmed, and what became of it.

CREATE TABLE drafts (
    id TEXT PRIMARY KEY,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    repo_id BIGINT NOT NULL,
    repo TEXT NOT NULL,
    subject TEXT NOT NULL,
    number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    hash TEXT NOT NULL,
    proposal TEXT NOT NULL,
    issue TEXT NOT NULL,
    is_shown BOOLEAN NOT NULL,
    state TEXT NOT NULL,
    offered_at TIMESTAMPTZ NOT NULL,
    confirmed_by TEXT,
    confirmed_at TIMESTAMPTZ,
    confirmed_job TEXT REFERENCES jobs (id),
    created_as TEXT,
    UNIQUE (repo_id, subject, number)
);

CREATE INDEX drafts_by_job ON drafts (job_id);
