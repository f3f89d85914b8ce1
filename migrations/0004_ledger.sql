-- Money: what each paid call of a model cost, what is set aside for the calls that are under way,
-- the caps that people set for an issue or pull request, and who was warned of which cap.
-- Money is in whole millionths of a US dollar, and NULL where nobody knows the price. Days are UTC.

CREATE TABLE ledger (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    seq BIGINT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    day TEXT NOT NULL,
    repo_id BIGINT NOT NULL,
    repo TEXT NOT NULL,
    installation_id BIGINT NOT NULL,
    subject TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    micro_usd BIGINT,
    PRIMARY KEY (job_id, seq)
);

CREATE INDEX ledger_by_subject ON ledger (repo_id, subject);

CREATE INDEX ledger_by_day ON ledger (day, repo_id, installation_id);

CREATE TABLE reservations (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id),
    fence BIGINT NOT NULL,
    day TEXT NOT NULL,
    repo_id BIGINT NOT NULL,
    installation_id BIGINT NOT NULL,
    subject TEXT NOT NULL,
    micro_usd BIGINT NOT NULL
);

CREATE TABLE subject_caps (
    repo_id BIGINT NOT NULL,
    subject TEXT NOT NULL,
    micro_usd BIGINT NOT NULL,
    micro_usd_before BIGINT,
    set_by TEXT NOT NULL,
    set_at TIMESTAMPTZ NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (repo_id, subject)
);

CREATE TABLE cap_warnings (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    cap TEXT NOT NULL,
    micro_usd BIGINT NOT NULL,
    PRIMARY KEY (job_id, cap, micro_usd)
);
