//! What happens in the demonstration: a small repository with a real bug and tests, the issue
//! that reports it, and what is asked on the pull request afterwards.
//! Never does the agent's work; that is a model's, or the stub's script.

/// The repository.
pub const REPO: &str = "octo/wordcount";

/// Who owns it and asks for the work.
pub const MAINTAINER: &str = "mona";

/// Title of the issue.
pub const ISSUE_TITLE: &str = "Words on a new line are not counted";

/// Body of the issue.
pub const ISSUE_BODY: &str = "`printf 'one two\\nthree\\n' | wordcount` says 2 words. \
I expect 3: a line break separates words like a space does. There is a failing test for it in `tests/counts.rs`.";

/// What is asked on the pull request.
pub const FOLLOW_UP: &str = "/agent fix Please also count the last line when the text does not end with a line break, \
and add a test for it.";

/// Files of the repository as (path, text).
pub const FILES: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("wordcount/Cargo.toml.txt")),
    ("Cargo.lock", include_str!("wordcount/Cargo.lock.txt")),
    (".gitignore", include_str!("wordcount/gitignore.txt")),
    ("README.md", include_str!("wordcount/README.md.txt")),
    ("AGENTS.md", include_str!("wordcount/AGENTS.md.txt")),
    ("src/lib.rs", include_str!("wordcount/lib.rs.txt")),
    ("src/main.rs", include_str!("wordcount/main.rs.txt")),
    ("tests/counts.rs", include_str!("wordcount/counts.rs.txt")),
];
