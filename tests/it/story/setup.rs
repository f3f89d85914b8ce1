//! Set-up of a repository: its commands run once for each state of what they depend on, what they leave
//! reaches later runs and never comes from a stranger, and people are told when they fail.

use forgehand::config::SetupFailure;
use forgehand::demo::double::RepositorySeed;
use forgehand::event::RunEvent;
use forgehand::job::Outcome;
use serde_json::json;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, finish, mend, usual, with_bug};

/// A set-up that leaves files in the checkout and in the home folder, and checks that want both. What
/// it finds from an earlier one it tells.
const FILE: &str = "setup = [\"sh prepare.sh\"]\ntest = [\"test -e deps/made && test -e ~/.cache/made\", \
                    \"! grep -rs poison deps ~/.cache\", \"sh test.sh\"]\n";
const PREPARE: &str = "mkdir -p deps ~/.cache\necho \"found $(ls ~/.cache)\"\ncat package-lock.json > deps/made\n\
                       touch ~/.cache/made\n";

fn with_setup(seed: RepositorySeed) -> RepositorySeed {
    with_bug(seed)
        .file(".github/forgehand.toml", FILE)
        .file(".gitignore", "deps/\n")
        .file("package-lock.json", "1\n")
        .file("prepare.sh", PREPARE)
        .commit("Count words")
}

/// How often set-up ran in the last job that changes code.
async fn set_ups(service: &Service) -> usize {
    let job = service.fix().await;
    let events = service.events(&job).await;
    let ran = |event: &&RunEvent| matches!(event, RunEvent::SetUpRan { .. });
    events.iter().filter(ran).count()
}

/// All checks of the last job passed, on both sides but for the bug itself.
async fn checks_passed(service: &Service) {
    let job = service.fix().await;
    for event in service.events(&job).await {
        if let RunEvent::Checked { check } = event {
            assert!(check.passed() || check.command == "sh test.sh", "{check:?}");
        }
    }
    assert!(matches!(service.outcome().await, Outcome::Opened { .. }));
}

async fn fix(service: &Service) {
    service.model.play(bug_fix());
    service.labelled_issue();
    service.done().await;
    checks_passed(service).await;
}

#[tokio::test]
async fn set_up_runs_once_and_again_when_a_lockfile_changes() {
    usual()
        .repository(with_setup)
        .tell(async |service: &mut Service| {
            fix(service).await;
            assert_eq!(
                set_ups(service).await,
                1,
                "the checks of the change begin with what it left"
            );
            let trees = service.state_dir().join("trees");
            let made = || walk(&trees);
            let first = made();
            fix(service).await;
            assert_eq!(set_ups(service).await, 0, "a second run of the repository");
            assert_eq!(made(), first, "and no second checkout");
            let lock = ("package-lock.json", "2\n");
            service.github.push(REPO, "main", &[lock], "Newer", MONA).await.unwrap();
            fix(service).await;
            assert_eq!(set_ups(service).await, 1);
            fix(service).await;
            assert_eq!(set_ups(service).await, 0);
            service.stop().await;
            service.start().await;
            fix(service).await;
            assert_eq!(set_ups(service).await, 0, "after a restart");
        })
        .await;
}

/// Prepared trees with the time of their making.
fn walk(trees: &std::path::Path) -> Vec<(std::path::PathBuf, std::time::SystemTime)> {
    let folders = |folder: &std::path::Path| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let trees = folders(trees)
        .iter()
        .flat_map(|repository| folders(repository))
        .collect::<Vec<_>>();
    let made = |tree: std::path::PathBuf| {
        let files = tree.join("tree");
        let at = std::fs::metadata(&files).and_then(|found| found.modified()).unwrap();
        (tree, at)
    };
    trees.into_iter().map(made).collect()
}

/// Neither a branch that somebody asks work on nor what an agent does reaches the set-up of later runs.
#[tokio::test]
async fn s14_only_trusted_set_ups_on_the_default_branch_are_kept() {
    usual()
        .repository(with_setup)
        .tell(async |service: &mut Service| {
            let poison = json!({"command": "echo poison > ~/.cache/agent; echo poison > deps/agent; echo poison >> ~/.cache/made"});
            service.model.play([Reply::call("run_command", poison), mend(), finish()]);
            service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            let prepare = ("prepare.sh", "mkdir -p deps ~/.cache; echo poison > deps/made; echo poison > ~/.cache/made\n");
            let lock = ("package-lock.json", "stranger\n");
            service.github.push(REPO, &pull.head, &[prepare, lock], "Mine", MONA).await.unwrap();
            let write = Reply::change("write_file", json!({"path": "x.txt", "content": "x\n"}));
            // The checks find what the branch's own set-up left, and the agent is told once.
            service.model.play([write, finish(), finish()]);
            service.comment(pull.number, "/agent fix Write x.txt.");
            service.done().await;
            assert!(set_ups(service).await > 0, "the branch has a set-up of its own");
            let kept = service.state_dir().join("setups");
            let keys = || walk_names(&kept);
            assert_eq!(keys().len(), 1, "{:?}", keys());
            fix(service).await;
            assert_eq!(set_ups(service).await, 0);
            // Even where a set-up begins with what the last one fetched.
            let lock = ("package-lock.json", "2\n");
            service.github.push(REPO, "main", &[lock], "Newer", MONA).await.unwrap();
            fix(service).await;
            assert_eq!((set_ups(service).await, keys().len()), (1, 2));
        })
        .await;
}

fn walk_names(kept: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for repository in std::fs::read_dir(kept).into_iter().flatten().flatten() {
        let entries = std::fs::read_dir(repository.path()).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        names.extend(folders.map(|entry| entry.file_name().into_string().unwrap()));
    }
    names
}

fn failing(seed: RepositorySeed) -> RepositorySeed {
    with_bug(seed)
        .file(
            ".github/forgehand.toml",
            "setup = [\"echo fetching; echo no such host >&2; exit 7\"]\n",
        )
        .commit("Count words")
}

#[tokio::test]
async fn a_named_set_up_that_fails_ends_the_run_with_its_last_lines() {
    usual()
        .repository(failing)
        .tell(async |service: &mut Service| {
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(
                words.contains("no such host") && words.contains("exit code 7"),
                "{words}"
            );
            assert!(matches!(service.outcome().await, Outcome::GaveUp { .. }));
            assert!(service.model.requests().is_empty() && service.pulls().is_empty());
            assert!(walk_names(&service.state_dir().join("setups")).is_empty());
        })
        .await;
}

#[tokio::test]
async fn after_a_failed_set_up_a_run_only_reads_where_the_configuration_says_so() {
    usual()
        .repository(failing)
        .configuration(|config| config.workspace.setup_failure = Some(SetupFailure::ReadOnly))
        .tell(async |service: &mut Service| {
            let answer = json!({"answer": "One is subtracted in count.sh."});
            service.model.play([Reply::call("finish", answer)]);
            let issue = service.labelled_issue();
            service.done().await;
            let request = service.model.requests().remove(0).body.to_string();
            assert!(
                request.contains("no such host") && request.contains("this run only reads"),
                "{request}"
            );
            for changing in ["write_file", "edit_file", "run_command"] {
                assert!(!request.contains(&format!("\"name\":\"{changing}\"")), "{changing}");
            }
            assert!(service.everything_said().contains("One is subtracted"), "{issue}");
            assert!(service.pulls().is_empty());
        })
        .await;
}

#[tokio::test]
async fn a_run_that_only_reads_still_does_after_a_restart() {
    usual()
        .repository(failing)
        .configuration(|config| config.workspace.setup_failure = Some(SetupFailure::ReadOnly))
        .tell(async |service: &mut Service| {
            let look = Reply::call("read_file", json!({"path": "count.sh"}));
            service.model.play([look, Reply::silence()]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            service.stop().await;
            service.model.play([Reply::call(
                "finish",
                json!({"answer": "One is subtracted in count.sh."}),
            )]);
            service.start().await;
            service.done().await;
            assert_eq!(service.outcome().await, Outcome::Answered);
            let words = service.our_only_words(issue);
            assert!(words.contains("One is subtracted"), "{words}");
            assert!(service.pulls().is_empty());
        })
        .await;
}

#[tokio::test]
async fn after_a_failed_set_up_a_run_goes_on_where_the_configuration_says_so() {
    usual()
        .repository(failing)
        .configuration(|config| config.workspace.setup_failure = Some(SetupFailure::GoOn))
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            let request = service.model.requests().remove(0).body.to_string();
            assert!(request.contains("no such host"), "{request}");
            assert_eq!(service.pulls().len(), 1);
        })
        .await;
}
