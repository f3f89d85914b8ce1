//! Pull requests as a repository wants them: its template, the form of its titles, drafts and
//! ready ones, reviewers, and a limit on size.

use forgehand::demo::double::{NewPullByPerson, RepositorySeed};

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, lasting, mend, note, usual};

/// The usual repository with one more file.
fn with_file(seed: RepositorySeed, path: &str, content: &str) -> RepositorySeed {
    seed.file("count.sh", "echo $(( $(wc -w) - 1 ))\n")
        .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
        .file(path, content)
        .commit("Count words")
}

/// Pull requests with these titles that were merged long ago.
async fn merged(service: &Service, titles: &[&str]) {
    for (at, title) in titles.iter().enumerate() {
        let branch = format!("old-{at}");
        let file = format!("notes/{at}.md");
        service
            .github
            .push(REPO, &branch, &[(&file, "x\n")], title, MONA)
            .await
            .unwrap();
        let new = NewPullByPerson {
            head_repo: REPO,
            head: &branch,
            base: "main",
            title,
            body: "",
            by: MONA,
        };
        let number = service.github.open_pull(REPO, new).await.unwrap();
        service.github.merge_pull(REPO, number, MONA).await.unwrap();
    }
}

/// The pull request that is open.
fn open_pull(service: &Service) -> forgehand::demo::double::Pull {
    let mut pulls = service.pulls();
    pulls.retain(|pull| pull.merged_at.is_none());
    assert_eq!(pulls.len(), 1, "{}", service.everything_said());
    pulls.remove(0)
}

const TEMPLATE: &str = "<!-- Thank you! Read CONTRIBUTING.md first. -->
## Description

Please describe your changes, @octo/reviewers will read them.

Closes #

## How has this been tested?

- [ ] Unit tests
- [x] By hand

## Checklist

- [x] I have read the rules
- [ ] I have updated the documentation

## Screenshots
<!-- before and after -->
";

#[tokio::test]
async fn the_template_is_filled_and_the_title_follows_the_others() {
    usual()
        .repository(|seed| with_file(seed, ".github/PULL_REQUEST_TEMPLATE.md", TEMPLATE))
        .tell(async |service: &mut Service| {
            merged(
                service,
                &["fix: count tabs", "feat(cli): read a file", "chore: add notes"],
            )
            .await;
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            let (title, body) = service.text_of(open_pull(service).number);
            assert_eq!(title, "fix: count the last word");
            insta::assert_snapshot!("template", lasting(&body));
        })
        .await;
}

#[tokio::test]
async fn without_a_template_the_body_has_sections_of_its_own() {
    usual()
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            assert!(pull.draft);
            let (title, body) = service.text_of(pull.number);
            assert_eq!(title, "Count the last word");
            insta::assert_snapshot!("plain_pull", lasting(&body));
            insta::assert_snapshot!("done", lasting(&service.our_only_words(issue)));
            assert_eq!(service.github.requested_reviewers(REPO, pull.number).unwrap(), [MONA]);
        })
        .await;
}

#[tokio::test]
async fn a_verified_pull_request_is_marked_ready_where_that_is_wanted() {
    usual()
        .repository(|seed| {
            with_file(
                seed,
                ".github/forgehand.toml",
                "test = [\"sh test.sh\"]\nauto_ready = true\n",
            )
        })
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            assert!(!service.only_pull().draft, "{}", service.everything_said());
            let words = service.our_only_words(issue);
            assert!(!words.contains("without effect"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn without_a_check_nothing_is_marked_ready() {
    usual()
        .repository(|seed| with_file(seed, ".github/forgehand.toml", "test = []\nauto_ready = true\n"))
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            assert!(service.only_pull().draft);
        })
        .await;
}

#[tokio::test]
async fn a_change_over_the_size_budget_stays_a_draft_and_says_so() {
    usual()
        .repository(|seed| {
            let config = "test = [\"sh test.sh\"]\nauto_ready = true\ndraft = false\nmax_changed_lines = 2\n";
            with_file(seed, ".github/forgehand.toml", config)
        })
        .tell(async |service: &mut Service| {
            let script = [
                mend(),
                note("more.txt"),
                Reply::finish("Count the last word", "It counts."),
            ];
            service.model.play(script);
            service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            let (_, body) = service.text_of(pull.number);
            assert!(
                pull.draft && body.contains("3 lines in 2 files, of at most 2"),
                "{body}"
            );
        })
        .await;
}

#[tokio::test]
async fn an_issue_is_only_closed_from_the_default_branch() {
    usual()
        .repository(|seed| with_file(seed, ".github/forgehand.toml", "base = \"next\"\n"))
        .tell(async |service: &mut Service| {
            service
                .github
                .push(REPO, "next", &[("next.txt", "x\n")], "Next", MONA)
                .await
                .unwrap();
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            let (_, body) = service.text_of(pull.number);
            assert_eq!(pull.base, "next");
            assert!(
                body.starts_with(&format!("For #{issue}\n")) && !body.contains("Fixes #"),
                "{body}"
            );
        })
        .await;
}

#[tokio::test]
async fn format_commands_change_what_is_checked_and_published() {
    usual()
        .repository(|seed| {
            let config = "test = [\"sh test.sh\", \"! grep -n TAB count.sh\"]\nformat = [\"sed -i /TAB/d {files}\", \"exit 3\"]\n";
            with_file(seed, ".github/forgehand.toml", config)
        })
        .tell(async |service: &mut Service| {
            let content = "# TAB\nwc -w\n";
            let write = Reply::change("write_file", serde_json::json!({"path": "count.sh", "content": content}));
            service.model.play([write, Reply::finish("Count the last word", "It counts.")]);
            let issue = service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            assert_eq!(service.file(&pull.head, "count.sh").await, "wc -w\n");
            let words = service.our_only_words(issue);
            assert!(words.contains("The format command `exit 3` failed (exit 3)"), "{words}");
        })
        .await;
}

/// Runs of Latin letters that no translation holds: names, code and what the model and people say.
fn english_of_ours(words: &str) -> Vec<String> {
    let ours = regex::Regex::new(r"`[^`]*`|<[^>]*>|\b(?:AI|token|Forgehand|test-model|mona|Count the last word|The count was one too low)\b|agent/\S+|https?://\S+").unwrap();
    let words = lasting(words);
    let left = ours.replace_all(&words, " ");
    let sentence = regex::Regex::new(r"[A-Za-z]{2,}(?: [A-Za-z]{2,}){1,}").unwrap();
    sentence
        .find_iter(&left)
        .map(|found| found.as_str().to_owned())
        .collect()
}

#[tokio::test]
async fn in_chinese_everything_of_ours_is_chinese() {
    usual()
        .repository(|seed| {
            with_file(
                seed,
                ".github/forgehand.toml",
                "test = [\"sh test.sh\"]\nimage = \"x\"\n",
            )
        })
        .configuration(|config| config.github.language = forgehand::config::LanguageChoice::Zh)
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            let (_, body) = service.text_of(service.only_pull().number);
            let words = service.our_only_words(issue);
            insta::assert_snapshot!("pull_in_chinese", lasting(&body));
            insta::assert_snapshot!("done_in_chinese", lasting(&words));
            assert_eq!(english_of_ours(&body), Vec::<String>::new(), "{body}");
            assert_eq!(english_of_ours(&words), Vec::<String>::new(), "{words}");
        })
        .await;
}

#[tokio::test]
async fn refusals_and_ends_are_chinese_too() {
    usual()
        .configuration(|config| config.github.language = forgehand::config::LanguageChoice::Zh)
        .tell(async |service: &mut Service| {
            service.model.play([
                note(".github/workflows/ci.yml"),
                Reply::finish("A", "B"),
                Reply::finish("A", "B"),
                Reply::finish("A", "B"),
            ]);
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            insta::assert_snapshot!("rules_in_chinese", lasting(&words));
            service.github.person("eve");
            let asked = service.issue();
            service.comment(asked, "/agent status");
            service.done().await;
            service.comment_by(asked, "/agent fix", "eve");
            service.done().await;
            let said: Vec<String> = service
                .our_comments(asked)
                .into_iter()
                .map(|comment| comment.body)
                .collect();
            assert_eq!(said.len(), 2, "{said:#?}");
            for words in said {
                assert_eq!(english_of_ours(&words), Vec::<String>::new(), "{words}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_repositorys_own_label_starts_work_once_its_file_was_read() {
    usual()
        .repository(|seed| with_file(seed, ".github/forgehand.toml", "label = \"robot\"\n"))
        .tell(async |service: &mut Service| {
            let issue = service.issue();
            service.github.label_issue(REPO, issue, "robot", MONA).unwrap();
            service.done().await;
            assert!(service.jobs().await.is_empty());
            service.model.play(crate::service::nothing_to_do());
            service.labelled_issue();
            service.done().await;
            service.model.play(bug_fix());
            let other = service.issue();
            service.github.label_issue(REPO, other, "Robot", MONA).unwrap();
            service.done().await;
            service.only_pull();
            assert_eq!(service.labels(other), Vec::<String>::new());
        })
        .await;
}

#[tokio::test]
async fn a_run_that_gets_stuck_and_one_that_is_stopped_are_told_in_chinese() {
    usual()
        .configuration(|config| config.github.language = forgehand::config::LanguageChoice::Zh)
        .tell(async |service: &mut Service| {
            service.model.play(["Well.", "Well.", "Well."].map(Reply::say));
            let stuck = service.labelled_issue();
            service.done().await;
            service.model.play([mend(), Reply::silence()]);
            let closed = service.labelled_issue();
            service.model_is_asked(5).await;
            service.github.close_issue(REPO, closed, MONA).unwrap();
            service.done().await;
            let words = service.our_only_words(stuck);
            insta::assert_snapshot!("stuck_in_chinese", lasting(&words));
            assert_eq!(english_of_ours(&words), Vec::<String>::new(), "{words}");
            let words = service.our_only_words(closed);
            insta::assert_snapshot!("stopped_in_chinese", lasting(&words));
            assert_eq!(english_of_ours(&words), Vec::<String>::new(), "{words}");
        })
        .await;
}

#[tokio::test]
async fn a_limit_that_is_reached_is_told_in_chinese() {
    usual()
        .configuration(|config| {
            config.github.language = forgehand::config::LanguageChoice::Zh;
            config.budget.max_turns = 3;
        })
        .tell(async |service: &mut Service| {
            let look = || Reply::call("glob", serde_json::json!({"pattern": "*"}));
            let last = Reply::call("list_directory", serde_json::json!({}));
            service.model.play([mend(), look(), last]);
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            insta::assert_snapshot!("limit_in_chinese", lasting(&words));
            assert_eq!(english_of_ours(&words), Vec::<String>::new(), "{words}");
        })
        .await;
}
