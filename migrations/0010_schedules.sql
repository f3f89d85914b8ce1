-- Schedules that were added at the command line, what became of each fire of any schedule, and until
-- when the fires of each were looked at. Those of the configuration stand in its file.

CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    written TEXT NOT NULL,
    added_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE schedule_fires (
    name TEXT NOT NULL,
    fire_at TIMESTAMPTZ NOT NULL,
    job_id TEXT REFERENCES jobs (id),
    outcome TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (name, fire_at)
);

CREATE INDEX schedule_fires_by_age ON schedule_fires (fire_at);

CREATE TABLE schedule_cursors (
    name TEXT PRIMARY KEY,
    timetable TEXT NOT NULL,
    until TIMESTAMPTZ NOT NULL
);
