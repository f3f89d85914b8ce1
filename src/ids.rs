//! Identifiers, parsed once at the door: inside the program a repository is a [`RepoName`] and a
//! commit is a [`CommitSha`], so that no function has to ask again what a string means.
//! Called by everything. Never touches the network, the disk or the clock (a ULID takes its time
//! from the caller).

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};

/// What was wrong with a value that should have been an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a {expected}: {problem}")]
pub struct IdError {
    /// What the value should have been, for example "repository name".
    pub expected: &'static str,
    /// The value, cut to 120 characters.
    pub value: String,
    /// Why it is not.
    pub problem: &'static str,
}

impl IdError {
    pub(crate) fn new(expected: &'static str, value: &str, problem: &'static str) -> Self {
        Self {
            expected,
            value: value.chars().take(120).collect(),
            problem,
        }
    }
}

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// A fresh identifier that sorts by `at` (milliseconds) and is random otherwise.
            pub fn new(at: DateTime<Utc>) -> Self {
                let random = crate::secret::random_bytes::<16>();
                Self(ulid::Ulid::from_parts(at.timestamp_millis().max(0) as u64, u128::from_le_bytes(random)).to_string())
            }

            /// The 26 characters.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                match ulid::Ulid::from_string(text) {
                    Ok(id) => Ok(Self(id.to_string())),
                    Err(_) => Err(IdError::new($expected, text, "26 characters of Crockford base 32 are expected")),
                }
            }
        }

        string_conversions!($name);
    };
}

macro_rules! string_conversions {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// As the database stores it. GitHub's numbers are far below 2^63.
            pub fn as_i64(self) -> i64 {
                i64::try_from(self.0).unwrap_or(i64::MAX)
            }

            /// From the database; a negative number becomes 0, which GitHub never uses.
            pub fn from_i64(value: i64) -> Self {
                Self(u64::try_from(value).unwrap_or(0))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

mod branch;
pub use branch::BranchName;

ulid_id!(
    /// One durable row of intended work.
    JobId, "job id"
);
ulid_id!(
    /// One attempt at one job.
    RunId, "run id"
);
ulid_id!(
    /// One row of the outbox.
    EffectId, "effect id"
);
ulid_id!(
    /// One draft of an issue that people can decide on.
    DraftId, "draft id"
);
number_id!(
    /// GitHub's numeric repository id: authority, where the name is only a label that can move.
    RepoId
);
number_id!(
    /// GitHub's numeric installation id.
    InstallationId
);
number_id!(
    /// GitHub's numeric account id of a person or bot.
    UserId
);
number_id!(
    /// GitHub's numeric comment id (issue comments and review comments have separate series).
    CommentId
);
number_id!(
    /// The number of an issue or pull request within its repository.
    IssueNumber
);
number_id!(
    /// GitHub's numeric App id.
    AppId
);

/// `owner/name`, as GitHub spells repositories. Compared without case, kept as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepoName(String);

impl RepoName {
    /// The part before the slash.
    pub fn owner(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// The part after the slash.
    pub fn name(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }

    /// `owner/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RepoName {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = |problem| IdError::new("repository name", text, problem);
        let (owner, name) = text.split_once('/').ok_or_else(|| error("it is written owner/name"))?;
        for part in [owner, name] {
            if part.is_empty() || part.len() > 100 || part == "." || part == ".." {
                return Err(error("owner and name have 1 to 100 characters"));
            }
            if !part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            {
                return Err(error("only letters, digits, '-', '_' and '.' are allowed"));
            }
        }
        if name.to_ascii_lowercase().ends_with(".git") {
            return Err(error("it is the name without '.git'"));
        }
        Ok(Self(text.to_owned()))
    }
}
string_conversions!(RepoName);

/// A full commit id: 40 (SHA-1) or 64 (SHA-256) lowercase hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitSha(String);

impl CommitSha {
    /// All digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first ten digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl FromStr for CommitSha {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::new(
                "commit id",
                text,
                "40 or 64 lowercase hex digits are expected",
            ))
        }
    }
}
string_conversions!(CommitSha);

/// Longest name of a task, in bytes.
const MAX_TASK_NAME: usize = 60;

/// What a job works on: an issue or a pull request of its repository, or a local checkout.
/// Stored as `issue/12`, `pull/12`, `local/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// An issue by number.
    Issue(IssueNumber),
    /// A pull request by number.
    Pull(IssueNumber),
    /// A checkout on this machine, named by the run.
    Local(String),
    /// Work that no issue holds, by the name of who planned it: `schedule-nightly`, `graph-main`.
    /// Lower-case letters, digits and hyphens.
    Task(String),
}

impl Subject {
    /// The subject of work that no issue holds; the name is cut and changed to fit.
    pub fn task(name: &str) -> Self {
        match crate::text::slug(name, MAX_TASK_NAME) {
            slug if slug.is_empty() => Subject::Task("task".to_owned()),
            slug => Subject::Task(slug),
        }
    }

    /// The issue or pull request number, `None` for a local checkout or a task.
    pub fn number(&self) -> Option<IssueNumber> {
        match self {
            Subject::Issue(number) | Subject::Pull(number) => Some(*number),
            Subject::Local(_) | Subject::Task(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Issue(number) => write!(f, "issue/{number}"),
            Subject::Pull(number) => write!(f, "pull/{number}"),
            Subject::Local(name) => write!(f, "local/{name}"),
            Subject::Task(name) => write!(f, "task/{name}"),
        }
    }
}

impl FromStr for Subject {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = || IdError::new("subject", text, "issue/N, pull/N, task/NAME or local/NAME is expected");
        let (kind, rest) = text.split_once('/').ok_or_else(error)?;
        let number = || rest.parse().map(IssueNumber).map_err(|_| error());
        match kind {
            "issue" => number().map(Subject::Issue),
            "pull" => number().map(Subject::Pull),
            "local" if !rest.is_empty() => Ok(Subject::Local(rest.to_owned())),
            "task" if !rest.is_empty() && crate::text::slug(rest, MAX_TASK_NAME) == rest => {
                Ok(Subject::Task(rest.to_owned()))
            }
            _ => Err(error()),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_repo(text: &str, ok: bool) {
        assert_eq!(text.parse::<RepoName>().is_ok(), ok, "{text:?}");
    }

    #[test]
    fn w23_repository_names_are_owner_slash_name() {
        check_repo("octo/widgets.rs", true);
        check_repo("octo", false);
        check_repo("octo/a/b", false);
        check_repo("octo/..", false);
        check_repo("octo/x;touch y", false);
        check_repo("/x", false);
        check_repo("octo/words.git", false);
        check_repo("octo/words?ref=main", false);
        check_repo("octo/words#readme", false);
        check_repo("https://github.com/octo/words", false);
    }

    #[test]
    fn subjects_survive_their_text() {
        for text in ["issue/12", "pull/3", "local/widgets", "task/schedule-nightly"] {
            assert_eq!(text.parse::<Subject>().unwrap().to_string(), text);
        }
        assert!("issue/-1".parse::<Subject>().is_err());
        assert!("gist/1".parse::<Subject>().is_err());
        assert!("task/Two words".parse::<Subject>().is_err());
        assert_eq!(Subject::task("Two words").to_string(), "task/two-words");
        assert_eq!(Subject::task("…").to_string(), "task/task");
    }

    #[test]
    fn ulids_sort_by_time() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        assert!(JobId::new(at(1_000)) < JobId::new(at(2_000)));
        assert!("nonsense".parse::<JobId>().is_err());
    }
}
