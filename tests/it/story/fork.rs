//! Pull requests from forks: worked on as any other, pushed to where the fork lets us, and handed over
//! as a patch where it does not. A stranger's commits never get onto a branch of the base repository.

use forgehand::demo::double::NewPullByPerson;
use forgehand::job::Outcome;
use serde_json::json;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, Setup, finish, lasting, note, usual};

const FORK: &str = "eve/words";
const EVE: &str = "eve";

/// A repository whose checks pass.
fn sound() -> Setup {
    usual().repository(|seed| {
        seed.file("count.sh", "echo $(( $(wc -w) ))\n")
            .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
            .commit("Count words")
    })
}

/// Eve's pull request from her fork.
async fn fork_pull(service: &Service) -> u64 {
    let github = &service.github;
    github.person(EVE);
    github.fork(REPO, FORK).await.unwrap();
    github.grant(FORK, EVE, "admin").unwrap();
    let files = [("eve.txt", "eve's\n")];
    github.push(FORK, "idea", &files, "An idea", EVE).await.unwrap();
    let new = NewPullByPerson {
        head_repo: FORK,
        head: "idea",
        base: "main",
        title: "An idea",
        body: "It adds a file.",
        by: EVE,
    };
    github.open_pull(REPO, new).await.unwrap()
}

/// The letter in the block of our only comment.
fn patch_in(words: &str) -> String {
    let (_, after) = words.split_once("```diff\n").expect("there is a patch");
    let (patch, _) = after.split_once("\n```").expect("the block ends");
    format!("{patch}\n")
}

/// What `git am` makes of a patch on the fork's branch: the files of the new head.
fn apply(service: &Service, patch: &str) -> std::path::PathBuf {
    let folder = service.state_dir().join("../eve");
    std::fs::create_dir_all(&folder).unwrap();
    let git = |arguments: &[&str], input: &str| {
        use std::io::Write as _;
        let mut child = std::process::Command::new("git")
            .args(["-c", "user.name=Eve", "-c", "user.email=eve@example.com"])
            .args(arguments)
            .current_dir(&folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "-q", "-b", "idea"], "");
    for (path, content) in [
        ("count.sh", "echo $(( $(wc -w) ))\n"),
        ("test.sh", "test $(echo a b | sh count.sh) = 2\n"),
        ("eve.txt", "eve's\n"),
    ] {
        std::fs::write(folder.join(path), content).unwrap();
    }
    git(&["add", "-A"], "");
    git(&["commit", "-q", "-m", "An idea"], "");
    git(&["am", "-q"], patch);
    folder
}

#[tokio::test]
async fn g2_a_fork_that_forbids_edits_gets_a_patch_and_an_honest_sentence() {
    sound()
        .tell(async |service: &mut Service| {
            let pull = fork_pull(service).await;
            let (branches, idea) = (
                service.github.branches(REPO).unwrap(),
                service.github.branch(FORK, "idea").unwrap(),
            );
            let read = Reply::call("read_file", serde_json::json!({"path": "eve.txt"}));
            service.model.play([read, note("a.txt"), finish()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.done().await;
            let words = service.our_only_words(pull);
            assert_eq!(service.outcome().await, Outcome::Answered, "{words}");
            insta::assert_snapshot!("fork_gets_a_patch", lasting(&words));
            let folder = apply(service, &patch_in(&words));
            assert_eq!(std::fs::read_to_string(folder.join("a.txt")).unwrap(), "x\n");
            assert_eq!(std::fs::read_to_string(folder.join("eve.txt")).unwrap(), "eve's\n");
            assert_eq!(service.github.branches(REPO).unwrap(), branches, "nothing was pushed");
            assert_eq!(service.github.branch(FORK, "idea").unwrap(), idea);
            assert_eq!(service.pulls().len(), 1, "no pull request behind anybody's back");
        })
        .await;
}

#[tokio::test]
async fn a_fork_that_lets_us_is_pushed_to() {
    sound()
        .tell(async |service: &mut Service| {
            let pull = fork_pull(service).await;
            service.github.allow_maintainer_edits(REPO, pull, true).unwrap();
            service.github.install(FORK).unwrap();
            let branches = service.github.branches(REPO).unwrap();
            service.model.play([note("a.txt"), finish()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.done().await;
            let outcome = service.outcome().await;
            assert!(
                matches!(&outcome, Outcome::Pushed { .. }),
                "{outcome:?}\n{}",
                service.everything_said()
            );
            let file = async |path: &str| service.github.file(FORK, "idea", path).await.unwrap();
            assert_eq!(file("a.txt").await, b"x\n");
            assert_eq!(file("eve.txt").await, b"eve's\n");
            assert_eq!(service.github.branches(REPO).unwrap(), branches);
        })
        .await;
}

#[tokio::test]
async fn a_patch_that_is_too_large_lies_as_a_file_on_top_of_the_base() {
    sound()
        .tell(async |service: &mut Service| {
            let pull = fork_pull(service).await;
            let content: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
            let write = serde_json::json!({"path": "a.txt", "content": content});
            service.model.play([Reply::change("write_file", write), finish()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.done().await;
            let words = service.our_only_words(pull);
            let Outcome::Pushed { branch, .. } = service.outcome().await else {
                panic!("{words}");
            };
            let name = format!("forgehand-pull-{pull}.patch");
            assert!(words.contains(&name) && words.contains(branch.as_str()), "{words}");
            let patch = service.file(branch.as_str(), &name).await;
            let folder = apply(service, &patch);
            assert_eq!(std::fs::read_to_string(folder.join("a.txt")).unwrap(), content);
            let foreign = service.github.file(REPO, branch.as_str(), "eve.txt").await;
            assert!(foreign.is_err(), "the fork's commits are not on it");
        })
        .await;
}

#[tokio::test]
async fn a_deleted_fork_gets_its_change_as_a_patch() {
    sound()
        .tell(async |service: &mut Service| {
            let pull = fork_pull(service).await;
            service.github.delete_repository(FORK).unwrap();
            service.model.play([note("a.txt"), finish()]);
            service.comment(pull, "/agent fix Write a.txt.");
            service.done().await;
            let words = service.our_only_words(pull);
            assert!(
                words.contains("was deleted") && patch_in(&words).contains("+x"),
                "{words}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_fork_that_forbids_edits_cannot_be_rebased_by_us() {
    sound()
        .tell(async |service: &mut Service| {
            let pull = fork_pull(service).await;
            let files = [("main.txt", "main\n")];
            service
                .github
                .push(REPO, "main", &files, "Main moves", MONA)
                .await
                .unwrap();
            service.comment(pull, "/agent rebase");
            service.done().await;
            let words = service.our_only_words(pull);
            assert!(words.contains("a merge cannot be handed over as a patch"), "{words}");
            assert!(!words.contains("below as a patch"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn a_pull_request_from_a_fork_is_reviewed_as_any_other() {
    sound()
        .tell(async |service: &mut Service| {
            let pull = fork_pull(service).await;
            let finding = json!({"file": "eve.txt", "line": 1, "severity": "major", "problem": "This says nothing."});
            service.model.play([Reply::call(
                "finish",
                json!({
                    "verdict": "needs_fix", "summary": "It adds a file.", "findings": [finding],
                    "foundation": 0, "foundation_why": "", "over_engineering": 0, "over_engineering_why": "",
                    "volume": 0, "volume_why": "", "terminology": 0, "terminology_why": "",
                }),
            )]);
            service.comment(pull, "/agent review");
            service.done().await;
            let reviews = service.github.reviews(REPO, pull).unwrap();
            assert_eq!(reviews.len(), 1, "{reviews:#?}");
            let outcome = service.works().await.remove(0).outcome;
            assert!(
                matches!(outcome, Some(Outcome::Reviewed { comments: 1, .. })),
                "{outcome:?}"
            );
        })
        .await;
}
