-- Fair turns in the queue: a job's turn comes by priority and turn, and a repository that asks for a
-- hundred things gets a hundred turns one behind the other. Which process leads the scheduler's loops.

ALTER TABLE jobs ADD COLUMN turn BIGINT NOT NULL DEFAULT 0;

CREATE INDEX jobs_turns ON jobs (priority DESC, turn, id)
    WHERE state = 'queued';

CREATE INDEX jobs_turns_by_repo ON jobs (installation_id, repo_id, turn)
    WHERE state = 'queued';

CREATE INDEX jobs_active_by_repo ON jobs (installation_id, repo_id)
    WHERE state IN ('leased', 'publishing');

-- For the words of SQLite: it takes an index of some states only where a statement names the same ones.
CREATE INDEX jobs_resumed ON jobs (priority DESC, run_at, id)
    WHERE state = 'publishing';

DROP INDEX jobs_ready;

CREATE TABLE leaders (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    fence BIGINT NOT NULL,
    until TIMESTAMPTZ NOT NULL
);
