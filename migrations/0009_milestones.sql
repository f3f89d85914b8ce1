-- Work graphs: the milestones of a goal by repository, what they depend on and where they stand.
-- Whoever changes a graph raises its version first, so that writers follow one another.

CREATE TABLE graphs (
    repository TEXT NOT NULL,
    name TEXT NOT NULL,
    goal TEXT NOT NULL,
    standing TEXT NOT NULL,
    failures BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (repository, name)
);

CREATE TABLE milestones (
    repository TEXT NOT NULL,
    graph TEXT NOT NULL,
    id TEXT NOT NULL,
    position BIGINT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    acceptance TEXT,
    depends_on TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    problem TEXT,
    kept TEXT,
    commit_sha TEXT,
    holder TEXT,
    held_until TIMESTAMPTZ,
    PRIMARY KEY (repository, graph, id),
    FOREIGN KEY (repository, graph) REFERENCES graphs (repository, name)
);
