-- The label that starts work in a repository besides the server's, as its own file said last.

CREATE TABLE repository_labels (
    repo_id BIGINT PRIMARY KEY,
    label TEXT NOT NULL
);
