-- What an installation may still send to GitHub, shared by all processes, and what became of effects
-- whose calls had no clear outcome.

CREATE TABLE write_budgets (
    installation_id BIGINT PRIMARY KEY,
    taken BIGINT NOT NULL,
    next_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE content_writes (
    installation_id BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (installation_id, seq)
);

CREATE INDEX content_writes_by_age ON content_writes (installation_id, at);

CREATE TABLE rate_limits (
    installation_id BIGINT NOT NULL,
    pool TEXT NOT NULL,
    until TIMESTAMPTZ NOT NULL,
    streak BIGINT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (installation_id, pool)
);

ALTER TABLE effects ADD COLUMN unclear BIGINT NOT NULL DEFAULT 0;

ALTER TABLE effects ADD COLUMN repaired TEXT;
