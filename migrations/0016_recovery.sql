-- How far GitHub was looked at for what did not arrive by itself: its log of webhook calls (source
-- 'log', repository 0), and each repository (source 'repository').

CREATE TABLE looks (
    source TEXT NOT NULL,
    repo_id BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    seen_to TIMESTAMPTZ NOT NULL,
    mark TEXT,
    looked_at TIMESTAMPTZ,
    next_at TIMESTAMPTZ NOT NULL,
    failures BIGINT NOT NULL,
    problem TEXT,
    PRIMARY KEY (source, repo_id)
);
