//! The push: one commit by its id to one branch, only if the branch is where we believe it to be; and the
//! end of a branch of ours under the same condition. Called through `publish`. Never forces without a lease, never moves a branch of people
//! backwards, and never believes the push itself: the remote is asked before and after.

use std::path::Path;
use std::time::Duration;

use super::checkout::init_bare;
use super::remote::{Target, classify};
use super::run::Output;
use super::{Git, GitError, Remote};
use crate::closed;
use crate::ids::{BranchName, CommitSha};

/// Longest time of a push.
const PUSH_TIMEOUT: Duration = Duration::from_secs(600);

/// Pushes, unless it already happened.
pub(super) async fn push(
    git: &Git,
    repo: &Path,
    remote: &Remote,
    sha: &CommitSha,
    branch: &BranchName,
    expect: Option<&CommitSha>,
) -> Result<(), GitError> {
    if !branch.is_ours() {
        check_forward(git, repo, sha, branch, expect).await?;
    }
    let target = Target::parse(remote)?;
    let before = git.ask(&target, branch).await?;
    if before.as_ref() == Some(sha) {
        return Ok(());
    }
    if before.as_ref() != expect {
        return Err(moved(branch, before.as_ref(), expect));
    }
    let full_ref = branch.full_ref();
    let expected = expect.map_or("", CommitSha::as_str);
    let output = git
        .call(&[
            "push",
            "--porcelain",
            "--no-verify",
            "--no-follow-tags",
            "--recurse-submodules=no",
        ])
        .arg(format!("--force-with-lease={full_ref}:{expected}"))
        // Tells the remote our base even when its branches have moved on, so that only the
        // change is sent and not every file of the base.
        .config("push.negotiate=true")
        .arg("--end-of-options")
        .arg("origin")
        .arg(format!("{sha}:{full_ref}"))
        .git_dir(repo)
        .remote(&target)
        .timeout(PUSH_TIMEOUT)
        .output()
        .await?;
    if output.code != Some(0) {
        return Err(judge(&output, branch, &target));
    }
    let after = git.ask(&target, branch).await.map_err(|error| match error {
        // It landed, most likely: whoever comes next looks, instead of taking it for one that was held back.
        GitError::Limited(problem) => GitError::Unavailable(problem),
        error => error,
    })?;
    match after.as_ref() == Some(sha) {
        true => Ok(()),
        false => Err(moved(branch, after.as_ref(), Some(sha))),
    }
}

/// Deletes a branch that this program made, if it is still where it was left.
pub(super) async fn delete(
    git: &Git,
    remote: &Remote,
    branch: &BranchName,
    expect: &CommitSha,
) -> Result<(), GitError> {
    if !branch.is_ours() {
        return Err(GitError::Refused(format!(
            "`{branch}` is not a name that this program makes"
        )));
    }
    let target = Target::parse(remote)?;
    match git.ask(&target, branch).await? {
        None => return Ok(()),
        Some(sha) if sha == *expect => {}
        found => return Err(moved(branch, found.as_ref(), Some(expect))),
    }
    let scratch =
        closed::temporary("forgehand-push-").map_err(|error| GitError::Failed(format!("make a folder: {error}")))?;
    init_bare(git, scratch.path(), expect).await?;
    let full_ref = branch.full_ref();
    let output = git
        .call(&["push", "--porcelain", "--no-verify", "--no-follow-tags"])
        .arg(format!("--force-with-lease={full_ref}:{expect}"))
        .arg("--end-of-options")
        .arg("origin")
        .arg(format!(":{full_ref}"))
        .git_dir(scratch.path())
        .remote(&target)
        .timeout(PUSH_TIMEOUT)
        .output()
        .await?;
    match output.code {
        Some(0) => Ok(()),
        _ => Err(judge(&output, branch, &target)),
    }
}

/// A branch that people own is only ever moved forward, and never made by us.
async fn check_forward(
    git: &Git,
    repo: &Path,
    sha: &CommitSha,
    branch: &BranchName,
    expect: Option<&CommitSha>,
) -> Result<(), GitError> {
    let Some(expect) = expect else {
        return Err(GitError::Refused(format!(
            "`{branch}` is not a name that this program makes"
        )));
    };
    let ancestor = git
        .call(&["merge-base", "--is-ancestor"])
        .arg(expect.as_str())
        .arg(sha.as_str())
        .git_dir(repo)
        .output()
        .await?;
    match ancestor.code {
        Some(0) => Ok(()),
        _ => Err(GitError::Refused(format!(
            "{} does not build on {}, where `{branch}` is; history of people is not rewritten",
            sha.short(),
            expect.short()
        ))),
    }
}

fn moved(branch: &BranchName, found: Option<&CommitSha>, expected: Option<&CommitSha>) -> GitError {
    let word =
        |sha: Option<&CommitSha>| sha.map_or("does not exist".to_owned(), |sha| format!("is at {}", sha.short()));
    GitError::Moved(format!(
        "`{branch}` {}, but was expected: {}",
        word(found),
        word(expected)
    ))
}

/// What a failed push means. A line per ref begins with `!` in porcelain output.
fn judge(output: &Output, branch: &BranchName, target: &Target) -> GitError {
    let text = target.scrub(&String::from_utf8_lossy(&output.stdout));
    let Some(refusal) = text.lines().find(|line| line.starts_with('!')) else {
        return classify(&format!("git push to {}", target.url()), output, true);
    };
    let reason = crate::text::plain_output(refusal.rsplit('\t').next().unwrap_or_default());
    let lower = reason.to_lowercase();
    let lost_race = [
        "stale info",
        "fetch first",
        "non-fast-forward",
        "already exists",
        "failed to update ref",
        "cannot lock ref",
        "failed to lock",
        "incorrect old value",
    ];
    if lost_race.iter().any(|phrase| lower.contains(phrase)) {
        return GitError::Moved(format!("`{branch}`: {reason}"));
    }
    let from_server: Vec<&str> = output
        .stderr
        .lines()
        .filter(|line| line.starts_with("remote:"))
        .collect();
    GitError::Refused(crate::text::cap(
        &format!("`{branch}`: {reason} {}", from_server.join(" ")),
        1_000,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let output = Output {
            stdout: format!("To https://x/y\n{line}\nDone\n").into_bytes(),
            stderr: "remote: error: GH006\nerror: failed to push some refs".to_owned(),
            truncated: false,
            code: Some(1),
        };
        let target = Target::parse(&Remote {
            url: "https://x/y".to_owned(),
            token: None,
        });
        let error = format!("{:?}", judge(&output, &"agent/x".parse().unwrap(), &target.unwrap()));
        assert!(error.starts_with(expected), "{line}: {error}");
    }

    #[test]
    fn refusals_are_told_from_lost_races() {
        check("!\ta:refs/heads/b\t[rejected] (stale info)", "Moved");
        check("!\ta:refs/heads/b\t[rejected] (fetch first)", "Moved");
        check(
            "!\ta:refs/heads/b\t[remote rejected] (reference already exists)",
            "Moved",
        );
        check(
            "!\ta:refs/heads/b\t[remote rejected] (protected branch hook declined)",
            "Refused",
        );
        check(
            "!\ta:refs/heads/b\t[remote rejected] (refusing to allow a GitHub App to create or update workflow)",
            "Refused",
        );
    }
}
