//! The names of branches: which names exist in git at all, and which ones we may write.
//! Never decides who may push; that is `publish`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{IdError, IssueNumber};

/// A branch name without `refs/heads/`, valid by git's own rules (`git check-ref-format`), so
/// that names like `fix/#12-x` or `paris,france` of real repositories are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BranchName(String);

/// Longest branch name accepted, in bytes: a loose ref is a file, and file names end at 255.
const MAX_BRANCH_BYTES: usize = 244;

impl BranchName {
    /// The branch of an issue's fix, `agent/<issue>-<slug>`.
    pub fn for_issue(number: IssueNumber, title: &str) -> Self {
        let slug = crate::text::slug(title, 48);
        if slug.is_empty() {
            Self(format!("agent/{number}"))
        } else {
            Self(format!("agent/{number}-{slug}"))
        }
    }

    /// The branch of a task without an issue, `agent/<slug>`.
    pub fn for_task(text: &str) -> Self {
        let slug = crate::text::slug(text, 48);
        if slug.is_empty() {
            Self("agent/task".to_owned())
        } else {
            Self(format!("agent/{slug}"))
        }
    }

    /// The same name with `-suffix`, for when another job owns the plain one.
    pub fn with_suffix(&self, suffix: &str) -> Self {
        Self(format!("{}-{}", self.0, crate::text::slug(suffix, 32)))
    }

    /// Whether the name is of the narrow grammar that this program creates:
    /// `agent/` and then lowercase letters, digits, `/`, `_`, `-`.
    pub fn is_ours(&self) -> bool {
        self.0.strip_prefix("agent/").is_some_and(|rest| {
            (1..=81).contains(&rest.len())
                && rest.as_bytes()[0].is_ascii_alphanumeric()
                && rest
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'/' | b'_' | b'-'))
        })
    }

    /// Without `refs/heads/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// With `refs/heads/`.
    pub fn full_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl FromStr for BranchName {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = |problem| IdError::new("branch name", text, problem);
        if text.is_empty() || text.len() > MAX_BRANCH_BYTES {
            return Err(error("it has 1 to 244 bytes"));
        }
        if text.starts_with('-') || text == "@" || text == "HEAD" || text.starts_with("refs/") {
            return Err(error("it would be read as an option or another ref"));
        }
        if text.contains("..") || text.contains("@{") || text.ends_with('.') {
            return Err(error("'..', '@{' and a final '.' are not allowed"));
        }
        if text
            .chars()
            .any(|c| c.is_control() || " ~^:?*[\\".contains(c) || crate::text::is_invisible(c))
        {
            return Err(error("a character is not allowed in refs"));
        }
        if text
            .split('/')
            .any(|part| part.is_empty() || part.starts_with('.') || part.ends_with(".lock"))
        {
            return Err(error("each part between slashes is a file name"));
        }
        Ok(Self(text.to_owned()))
    }
}
string_conversions!(BranchName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g8_names_that_git_accepts_are_accepted() {
        for name in [
            "fix/#12-x",
            "a+b",
            "paris,france",
            "@hotfix/x",
            "_release/v1",
            "main",
            "x;touch",
        ] {
            assert!(name.parse::<BranchName>().is_ok(), "{name}");
        }
    }

    #[test]
    fn names_that_git_or_a_shell_would_misread_are_refused() {
        for name in [
            "-x",
            "--upload-pack=x",
            "a..b",
            "x.lock",
            "HEAD",
            "@{",
            "@",
            "refs/heads/x",
            "a b",
            "a\0",
            "a\u{202e}b",
            "",
        ] {
            assert!(name.parse::<BranchName>().is_err(), "{name:?}");
        }
        assert!("x".repeat(300).parse::<BranchName>().is_err());
    }

    #[test]
    fn g7_our_own_branches_have_a_narrow_grammar() {
        let ours = BranchName::for_issue(IssueNumber(7), "area:permissions \"; touch CANARY; ünïcode & emoji 🎉");
        assert!(ours.is_ours(), "{ours}");
        assert!(!"main".parse::<BranchName>().unwrap().is_ours());
        assert!(!"agent/x;touch".parse::<BranchName>().unwrap().is_ours());
    }
}
