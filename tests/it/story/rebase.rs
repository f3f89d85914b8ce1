//! `/agent rebase`: the base of a pull request comes into its branch, and nothing of either side is
//! lost or rewritten.

use forgehand::demo::double::{NewPullByPerson, RepositorySeed};
use forgehand::job::{JobKind, Outcome};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, Setup, finish, lasting, note, usual};

const FEATURE: &str = "feature";

/// A repository whose checks pass, with files to disagree about.
fn sound() -> Setup {
    fn seed(seed: RepositorySeed) -> RepositorySeed {
        seed.file("count.sh", "echo $(( $(wc -w) ))\n")
            .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
            .file("README.md", "# words\n\nCounts words.\n")
            .commit("Count words")
    }
    usual().repository(seed)
}

async fn push(service: &Service, branch: &str, file: (&str, &str), message: &str) -> String {
    service.github.push(REPO, branch, &[file], message, MONA).await.unwrap()
}

/// Mona's pull request, and a commit on its base since.
async fn pull_behind(service: &Service, mine: (&str, &str), mains: (&str, &str)) -> u64 {
    push(service, FEATURE, mine, "Mine").await;
    let new = NewPullByPerson {
        head_repo: REPO,
        head: FEATURE,
        base: "main",
        title: "Say more",
        body: "It says more.",
        by: MONA,
    };
    let pull = service.github.open_pull(REPO, new).await.unwrap();
    push(service, "main", mains, "Main moves").await;
    pull
}

/// The last job that merges.
async fn outcome(service: &Service) -> Outcome {
    let mut jobs = service.jobs().await;
    jobs.retain(|job| job.kind == JobKind::Rebase);
    let job = jobs.pop().expect("there is a job");
    job.outcome
        .unwrap_or_else(|| panic!("{} {:?}\n{}", job.state, job.reason, service.everything_said()))
}

/// The model's turn that writes the README that both sides want.
fn settle() -> Reply {
    let command = "printf '# words\\n\\nBoth.\\n' > README.md; sh test.sh; git diff";
    Reply::call("run_command", json!({"command": command}))
}

#[tokio::test]
async fn a_base_that_fits_is_merged_checked_and_pushed_without_a_model() {
    sound()
        .tell(async |service: &mut Service| {
            let pull = pull_behind(service, ("mine.txt", "mine\n"), ("main.txt", "main\n")).await;
            let before = service.github.branch(REPO, FEATURE).unwrap().unwrap();
            service.comment(pull, "/agent rebase");
            service.done().await;
            let Outcome::Pushed { branch, sha } = outcome(service).await else {
                panic!("{:?}\n{}", outcome(service).await, service.everything_said());
            };
            assert_eq!(branch.as_str(), FEATURE);
            assert_eq!(
                service.github.branch(REPO, FEATURE).unwrap().as_deref(),
                Some(sha.as_str())
            );
            for (path, content) in [("mine.txt", "mine\n"), ("main.txt", "main\n")] {
                assert_eq!(service.file(FEATURE, path).await, content);
            }
            let commits = service.github.commits(REPO, FEATURE).await.unwrap();
            assert_eq!(commits[0], "Merge branch 'main' into feature");
            assert!(commits.contains(&"Mine".to_owned()) && commits.contains(&"Main moves".to_owned()));
            // Only what came from the base is new to the branch, and nothing of it is to the base.
            assert!(
                service.github.commits(REPO, &before).await.unwrap().len() + 2 == commits.len(),
                "{commits:?}"
            );
            let words = service.our_only_words(pull);
            assert!(words.contains("Merged 1 commit of `main` into `feature`"), "{words}");
            assert!(
                words.contains("No file conflicted.") && words.contains("| `sh test.sh` | ✅ exit 0"),
                "{words}"
            );
            assert_eq!(service.model.requests().len(), 0);
        })
        .await;
}

#[tokio::test]
async fn conflicts_with_the_base_are_settled_by_the_agent_and_named() {
    sound()
        .tell(async |service: &mut Service| {
            let mine = ("README.md", "# words\n\nMine.\n");
            let pull = pull_behind(service, mine, ("README.md", "# words\n\nMain's.\n")).await;
            service.model.play([settle(), finish()]);
            service.comment(pull, "/agent rebase Keep both.");
            service.done().await;
            assert!(
                matches!(outcome(service).await, Outcome::Pushed { .. }),
                "{}",
                service.everything_said()
            );
            assert_eq!(service.file(FEATURE, "README.md").await, "# words\n\nBoth.\n");
            let commits = service.github.commits(REPO, FEATURE).await.unwrap();
            assert_eq!(commits[0], "Merge branch 'main' into feature");
            assert!(commits.contains(&"Mine".to_owned()) && commits.contains(&"Main moves".to_owned()));
            let prompt = service.model.requests()[0].last().to_owned();
            for word in [
                "`README.md` (contents)",
                "<<<<<<< this-branch",
                "Octo Person: Main moves",
                "Keep both.",
            ] {
                assert!(prompt.contains(word), "{word}: {prompt}");
            }
            let words = service.our_only_words(pull);
            insta::assert_snapshot!("merged_with_conflicts", lasting(&words));
        })
        .await;
}

#[tokio::test]
async fn marks_of_a_conflict_are_never_pushed() {
    sound()
        .tell(async |service: &mut Service| {
            let mine = ("README.md", "# words\n\nMine.\n");
            let pull = pull_behind(service, mine, ("README.md", "# words\n\nMain's.\n")).await;
            let before = service.github.branch(REPO, FEATURE).unwrap();
            service.model.play([note("a.txt"), finish(), finish(), finish()]);
            service.comment(pull, "/agent rebase");
            service.done().await;
            let outcome = outcome(service).await;
            assert!(matches!(outcome, Outcome::GaveUp { branch: None, .. }), "{outcome:?}");
            assert_eq!(service.github.branch(REPO, FEATURE).unwrap(), before);
            let words = service.our_only_words(pull);
            assert!(words.contains("conflicts with this branch in `README.md`"), "{words}");
            assert!(words.contains("nothing was pushed"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn what_the_merge_broke_is_mended_in_it() {
    sound()
        .tell(async |service: &mut Service| {
            let stricter = ("test.sh", "test $(echo a b | sh count.sh) = 2 && test -f a.txt\n");
            let pull = pull_behind(service, ("mine.txt", "mine\n"), stricter).await;
            service.model.play([note("a.txt"), finish()]);
            service.comment(pull, "/agent rebase");
            service.done().await;
            assert!(
                matches!(outcome(service).await, Outcome::Pushed { .. }),
                "{}",
                service.everything_said()
            );
            assert_eq!(service.file(FEATURE, "a.txt").await, "x\n");
            let words = service.our_only_words(pull);
            assert!(
                words.contains("Changed in the merge") && words.contains("`a.txt` added"),
                "{words}"
            );
        })
        .await;
}

#[tokio::test]
async fn a_merge_is_carried_over_what_somebody_pushed_to_the_branch_meanwhile() {
    sound()
        .tell(async |service: &mut Service| {
            let mine = ("README.md", "# words\n\nMine.\n");
            let pull = pull_behind(service, mine, ("README.md", "# words\n\nMain's.\n")).await;
            let gate = CancellationToken::new();
            service.model.play([settle(), finish().after(&gate)]);
            service.comment(pull, "/agent rebase");
            service.model_is_asked(2).await;
            push(service, FEATURE, ("later.txt", "later\n"), "Later").await;
            gate.cancel();
            service.done().await;
            assert!(
                matches!(outcome(service).await, Outcome::Pushed { .. }),
                "{}",
                service.everything_said()
            );
            assert_eq!(service.file(FEATURE, "README.md").await, "# words\n\nBoth.\n");
            assert_eq!(service.file(FEATURE, "later.txt").await, "later\n");
            let commits = service.github.commits(REPO, FEATURE).await.unwrap();
            for subject in ["Later", "Mine", "Main moves"] {
                assert!(commits.contains(&subject.to_owned()), "{commits:?}");
            }
            assert_eq!(
                service.model.requests().len(),
                2,
                "what was settled is not settled again"
            );
        })
        .await;
}

#[tokio::test]
async fn a_branch_that_has_everything_is_up_to_date() {
    sound()
        .tell(async |service: &mut Service| {
            let pull = pull_behind(service, ("mine.txt", "mine\n"), ("main.txt", "main\n")).await;
            service.comment(pull, "/agent rebase");
            service.done().await;
            let merged = service.github.branch(REPO, FEATURE).unwrap();
            service.comment(pull, "/agent rebase");
            service.done().await;
            assert!(matches!(outcome(service).await, Outcome::NothingToDo { .. }));
            assert_eq!(service.github.branch(REPO, FEATURE).unwrap(), merged);
            let words = service.our_comments(pull).pop().unwrap().body;
            assert!(words.contains("`feature` is up to date"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn only_open_pull_requests_have_a_base_to_merge() {
    sound()
        .tell(async |service: &mut Service| {
            let issue = service.issue();
            service.comment(issue, "/agent rebase");
            let pull = pull_behind(service, ("mine.txt", "mine\n"), ("main.txt", "main\n")).await;
            service.github.close_issue(REPO, pull, MONA).unwrap();
            service.comment(pull, "/agent rebase");
            service.done().await;
            assert!(service.our_only_words(issue).contains("`rebase` is for pull requests"));
            assert!(service.our_only_words(pull).contains("This pull request is closed"));
        })
        .await;
}
