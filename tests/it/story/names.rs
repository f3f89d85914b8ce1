//! Branches as people call them: names with every sign that git allows, the names of folders and of
//! the base itself. Names are data: no shell and no address reads anything into them.

use forgehand::demo::double::NewPullByPerson;
use forgehand::job::Outcome;

use crate::service::{MONA, REPO, Service, Setup, bug_fix, finish, note, usual};

/// A repository whose checks pass, with a folder.
fn sound() -> Setup {
    usual().repository(|seed| {
        seed.file("count.sh", "wc -w\n")
            .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
            .file("docs/a.md", "a\n")
            .commit("Count words")
    })
}

/// Mona's pull request from a branch of a repository.
async fn pull_from(service: &Service, head_repo: &str, head: &str) -> u64 {
    let file = format!("notes/{}.md", head.len());
    service
        .github
        .push(head_repo, head, &[(&file, "x\n")], "A note", MONA)
        .await
        .unwrap();
    let new = NewPullByPerson {
        head_repo,
        head,
        base: "main",
        title: "A note",
        body: "",
        by: MONA,
    };
    service.github.open_pull(REPO, new).await.unwrap()
}

/// A request there ends in a commit on that branch, on top of what it had.
async fn check(service: &Service, pull: u64, head_repo: &str, head: &str) {
    let before = service.github.branch(head_repo, head).unwrap();
    service.model.play([note("a.txt"), finish()]);
    service.comment(pull, "/agent fix Write a.txt.");
    service.done().await;
    let outcome = service.outcome().await;
    let pushed = match &outcome {
        Outcome::Pushed { branch, sha } if branch.as_str() == head => sha.to_string(),
        _ => panic!("{head}: {outcome:?}\n{}", service.everything_said()),
    };
    let after = service.github.branch(head_repo, head).unwrap();
    assert_eq!(after.as_deref(), Some(pushed.as_str()), "{head}");
    assert_ne!(before, after, "{head}");
    let file = service.github.file(head_repo, head, "a.txt").await.unwrap();
    assert_eq!(file, b"x\n", "{head}");
    let words = service.our_only_words(pull);
    assert!(words.starts_with("### ✅ Done"), "{words}");
}

#[tokio::test]
async fn g8_g16_every_name_that_git_allows_is_pushed_to() {
    sound()
        .tell(async |service: &mut Service| {
            for head in [
                "fix/#12-x",
                "a+b%20c",
                "paris,france",
                "@hotfix/x",
                "_release/v1",
                "x;touch${IFS}pwn",
                "träume&wünsche",
            ] {
                let pull = pull_from(service, REPO, head).await;
                check(service, pull, REPO, head).await;
            }
        })
        .await;
}

/// The tree has a folder `docs` and a file `count.sh`.
#[tokio::test]
async fn g5_a_branch_may_be_called_like_a_folder_or_a_file() {
    sound()
        .tell(async |service: &mut Service| {
            for head in ["docs", "count.sh"] {
                let pull = pull_from(service, REPO, head).await;
                check(service, pull, REPO, head).await;
            }
        })
        .await;
}

#[tokio::test]
async fn g5_the_main_branch_of_a_fork_is_not_taken_for_ours() {
    const FORK: &str = "mona/words";
    sound()
        .tell(async |service: &mut Service| {
            service.github.fork(REPO, FORK).await.unwrap();
            service.github.grant(FORK, MONA, "admin").unwrap();
            let ours = service.github.branch(REPO, "main").unwrap();
            let pull = pull_from(service, FORK, "main").await;
            service.github.allow_maintainer_edits(REPO, pull, true).unwrap();
            service.github.install(FORK).unwrap();
            check(service, pull, FORK, "main").await;
            assert_eq!(service.github.branch(REPO, "main").unwrap(), ours);
        })
        .await;
}

/// What was pushed between two jobs is in the base of the second, which its pull request names.
#[tokio::test]
async fn g31_every_job_begins_at_the_base_of_now() {
    usual()
        .tell(async |service: &mut Service| {
            let first = service.opened_pull().await;
            let files = [("more.txt", "more\n")];
            let now = service.github.push(REPO, "main", &files, "More", MONA).await.unwrap();
            service.model.play(bug_fix());
            let issue = service.issue();
            service.label(issue);
            service.done().await;
            let mut pulls = service.pulls();
            pulls.retain(|pull| pull.number != first);
            let pull = pulls.pop().unwrap();
            assert_eq!(service.file(&pull.head, "more.txt").await, "more\n");
            let (_, body) = service.text_of(pull.number);
            assert!(body.contains(&format!("base {}", &now[..10])), "{body}");
        })
        .await;
}
