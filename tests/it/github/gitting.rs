//! Real git against the double: who may fetch, who may push, and what follows a push.

use std::path::Path;

use base64::Engine as _;
use forgehand::github::{Access, GitHubError, NewPull};
use forgehand::secret::Secret;
use tokio::process::Command;

use super::{REPO, Stage};

/// Runs git with a token, away from this person's configuration.
async fn git(dir: &Path, token: Option<&Secret>, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.org");
    if let Some(token) = token {
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{}", token.expose()));
        command
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "http.extraHeader")
            .env("GIT_CONFIG_VALUE_0", format!("Authorization: basic {basic}"));
    }
    let output = command.output().await.unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[tokio::test]
async fn a_clone_and_a_push_need_the_right_token() {
    let stage = Stage::set().await;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (reader, writer) = (stage.client(Access::Read), stage.client(Access::Write));
    let (read, write) = (reader.git_token().await.unwrap(), writer.git_token().await.unwrap());
    let url = reader.git_url();
    let anonymous = git(dir, None, &["clone", &url, "a"]).await.unwrap_err();
    assert!(anonymous.contains("could not read Username"), "{anonymous}");
    let invented = Secret::new(format!("ghs_{}", "x".repeat(36)));
    let refused = git(dir, Some(&invented), &["clone", &url, "b"]).await.unwrap_err();
    assert!(
        refused.contains("Authentication failed") || refused.contains("could not read"),
        "{refused}"
    );
    git(dir, Some(&read), &["clone", "--filter=blob:none", &url, "c"])
        .await
        .unwrap();
    let clone = dir.join("c");
    std::fs::write(clone.join("new.txt"), "x".repeat(2_000_000)).unwrap();
    git(&clone, None, &["checkout", "--quiet", "-b", "agent/1-fix"])
        .await
        .unwrap();
    git(&clone, None, &["add", "."]).await.unwrap();
    git(&clone, None, &["commit", "--quiet", "-m", "Fix"]).await.unwrap();
    let push = ["push", "--quiet", "origin", "agent/1-fix"];
    let refused = git(&clone, Some(&read), &push).await.unwrap_err();
    assert!(refused.contains("403"), "{refused}");
    git(&clone, Some(&write), &push).await.unwrap();
    let head = git(&clone, None, &["rev-parse", "HEAD"]).await.unwrap();
    assert_eq!(stage.double.branch(REPO, "agent/1-fix").unwrap(), Some(head));
    assert_eq!(
        stage.double.commits(REPO, "agent/1-fix").await.unwrap(),
        ["Fix", "Begin"]
    );
    let pushes = stage.double.ledger();
    assert_eq!(pushes.iter().filter(|write| write.status == 200).count(), 1);
    stage.double.revoke_tokens();
    let ended = git(&clone, Some(&write), &["ls-remote", "origin"]).await.unwrap_err();
    assert!(
        ended.contains("Authentication failed") || ended.contains("could not read"),
        "{ended}"
    );
}

#[tokio::test]
async fn a_token_of_one_repository_opens_no_other() {
    let stage = Stage::set().await;
    stage
        .double
        .repository("octo/other")
        .private()
        .file("a", "b")
        .commit("Begin")
        .create()
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let token = stage.client(Access::Write).git_token().await.unwrap();
    let url = stage.client_of("octo/other", Access::Write).git_url();
    let refused = git(folder.path(), Some(&token), &["ls-remote", &url])
        .await
        .unwrap_err();
    assert!(refused.contains("not found"), "{refused}");
}

#[tokio::test]
async fn a_pull_request_follows_its_branch() {
    let stage = Stage::set().await;
    let folder = tempfile::tempdir().unwrap();
    let client = stage.client(Access::Write);
    let token = client.git_token().await.unwrap();
    let first = stage
        .double
        .push(REPO, "agent/1-fix", &[("a", "1")], "One", "ada")
        .await
        .unwrap();
    let new = NewPull {
        head: "agent/1-fix".parse().unwrap(),
        base: "main".parse().unwrap(),
        title: "Fix".to_owned(),
        body: String::new(),
        draft: false,
    };
    let pull = client.create_pull(&new).await.unwrap();
    let pull_ref = format!("refs/pull/{}/head", pull.number);
    let url = client.git_url();
    let seen = git(folder.path(), Some(&token), &["ls-remote", &url, &pull_ref])
        .await
        .unwrap();
    assert!(seen.starts_with(&first), "{seen}");
    let second = stage
        .double
        .push(REPO, "agent/1-fix", &[("a", "2")], "Two", "ada")
        .await
        .unwrap();
    let seen = git(folder.path(), Some(&token), &["ls-remote", &url, &pull_ref])
        .await
        .unwrap();
    assert!(seen.starts_with(&second), "{seen}");
    assert_eq!(client.pull(pull.number).await.unwrap().head.sha.as_str(), second);
    stage.double.merge_pull(REPO, pull.number.0, "ada").await.unwrap();
    let merged = client.pull(pull.number).await.unwrap();
    assert!(merged.merged && merged.state == "closed");
    assert_eq!(stage.double.file(REPO, "main", "a").await.unwrap(), b"2");
}

#[tokio::test]
async fn the_same_seed_gives_the_same_commits() {
    let mut heads = Vec::new();
    for _ in 0..2 {
        let stage = Stage::set().await;
        let seed = stage.double.repository("octo/seeded").default_branch("trunk");
        let seed = seed
            .file("odd \"name\".txt", [0_u8, 159, 146])
            .executable("run.sh", "#!/bin/sh\n");
        let seed = seed.symlink("CLAUDE.md", "AGENTS.md").commit("One\n\nWith a body");
        seed.branch("old")
            .delete("run.sh")
            .commit("Two")
            .create()
            .await
            .unwrap();
        assert_eq!(stage.double.branches("octo/seeded").unwrap(), ["old", "trunk"]);
        let odd = stage
            .double
            .file("octo/seeded", "old", "odd \"name\".txt")
            .await
            .unwrap();
        assert_eq!(odd, [0, 159, 146]);
        assert!(stage.double.file("octo/seeded", "old", "run.sh").await.is_err());
        heads.push(stage.double.branch("octo/seeded", "old").unwrap());
    }
    assert_eq!(heads[0], heads[1]);
}

#[tokio::test]
async fn an_archived_repository_takes_no_push() {
    let stage = Stage::set().await;
    let folder = tempfile::tempdir().unwrap();
    let client = stage.client(Access::Write);
    let token = client.git_token().await.unwrap();
    git(
        folder.path(),
        Some(&token),
        &["clone", "--quiet", &client.git_url(), "a"],
    )
    .await
    .unwrap();
    stage.double.archive_repository(REPO).unwrap();
    let clone = folder.path().join("a");
    let refused = git(&clone, Some(&token), &["push", "origin", "main:other"])
        .await
        .unwrap_err();
    assert!(refused.contains("403"), "{refused}");
    let number = stage.issue();
    let write = client.create_comment(number, "hello").await;
    assert!(matches!(write, Err(GitHubError::Forbidden { .. })), "{write:?}");
}
