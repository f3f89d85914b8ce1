//! Issues are drafted on GitHub, looked for among what exists, and created by the word of somebody
//! who may: once, and exactly as they were shown. Security findings are nobody else's business.

use forgehand::demo::double::Fault;
use forgehand::draft::{DraftState, Offer};
use forgehand::job::{JobKind, Outcome};
use serde_json::{Value, json};

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, finish, mend, usual};

const TOKEN: &str = "ghs_0123456789abcdefghijABCDEFGHIJ012345";
const CREATE: &str = "POST /repos/octo/words/issues";

fn bug() -> Value {
    json!({
        "kind": "bug",
        "title": "count.sh leaves out the last word",
        "environment": "sh on Linux, at the last commit.",
        "reproduction": ["Run `echo a b | sh count.sh`."],
        "observed": [{
            "statement": "It prints 1 for two words.",
            "file": "count.sh:2",
            "command": "echo a b | sh count.sh",
            "log": "counted 1",
        }],
        "expected": ["It prints 2, as test.sh says."],
        "hypotheses": ["Line 2 subtracts one."],
        "impact": "Every count is one too small.",
        "scope": ["count.sh"],
        "acceptance_criteria": ["`sh test.sh` passes."],
        "validation": ["`sh test.sh`"],
    })
}

fn chore(title: &str) -> Value {
    json!({
        "kind": "chore", "title": title,
        "context": "README.md has one line and names no command.",
        "goal": "README.md shows how words are counted.",
        "scope": ["README.md"], "non_goals": ["Other documents."],
        "acceptance_criteria": ["README.md has an example of count.sh."],
        "validation": ["Read it."], "dependencies_and_risks": ["None known."],
    })
}

fn secret() -> Value {
    json!({
        "kind": "security", "title": "Filenames are passed to a shell unquoted",
        "observed": [{"statement": "PLUGH runs what a file is called.", "file": "count.sh:2"}],
        "impact": "XYZZY: whoever names a file runs commands.", "severity": "high",
        "scope": ["count.sh"], "acceptance_criteria": ["Names are quoted."], "validation": ["A test with a space."],
        "labels": ["danger"],
    })
}

fn with(mut draft: Value, key: &str, value: Value) -> Value {
    draft[key] = value;
    draft
}

fn drafts(drafts: &[Value]) -> Vec<Reply> {
    let mut replies: Vec<Reply> = drafts
        .iter()
        .map(|draft| Reply::call("draft_issue", draft.clone()))
        .collect();
    replies.push(Reply::call("finish", json!({"summary": "Drafted what was asked for."})));
    replies
}

/// The status comment of the last run on an issue, without what differs from run to run.
fn last_words(service: &Service, number: u64) -> String {
    let mut comments = service.our_comments(number);
    let body = comments.pop().expect("we said something").body;
    let patterns = [
        (r"<!-- forgehand:.*? -->", "<!-- marker -->"),
        (r"01[0-9A-HJKMNP-TV-Z]{24}", "ID"),
        (r"`[0-9a-f]{10}`", "`HASH`"),
        (r"http://127\.0\.0\.1:\d+", "https://github.example"),
        (r"\d+ turns · .*? out", "TURNS"),
    ];
    let clean = |text: String, (pattern, with): (&str, &str)| {
        regex::Regex::new(pattern)
            .unwrap()
            .replace_all(&text, with)
            .into_owned()
    };
    patterns.into_iter().fold(body, clean)
}

async fn offers(service: &Service) -> Vec<Offer> {
    let mut tx = service.store.begin().await.unwrap();
    tx.drafts(100).await.unwrap()
}

/// Numbers of issues that our bot opened.
fn created(service: &Service) -> Vec<u64> {
    let issues = service.github.issues(REPO).unwrap();
    let ours = issues.iter().filter(|issue| {
        issue
            .body
            .as_deref()
            .is_some_and(|body| body.contains("<!-- forgehand:v1:draft:"))
    });
    ours.map(|issue| issue.number).collect()
}

/// An issue on which mona asked for drafts, which are there.
async fn drafted(service: &Service, given: &[Value]) -> u64 {
    let issue = service.issue();
    draft_again(service, issue, given).await;
    issue
}

async fn draft_again(service: &Service, issue: u64, given: &[Value]) {
    service.model.play(drafts(given));
    service.comment(issue, "/agent draft what is wrong with the words");
    service.done().await;
}

async fn say(service: &Service, issue: u64, words: &str) -> String {
    service.comment(issue, words);
    service.done().await;
    last_words(service, issue)
}

#[tokio::test]
async fn a_draft_becomes_an_issue_by_one_word() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.add_repo_label(REPO, "Bug").unwrap();
            let draft = with(bug(), "labels", json!(["bug", "urgent"]));
            let issue = drafted(service, &[draft]).await;
            insta::assert_snapshot!("one_draft", last_words(service, issue));
            assert_eq!(created(service), [] as [u64; 0]);
            let works = service.works().await;
            assert_eq!(
                (works[0].kind, works[0].outcome.as_ref()),
                (JobKind::Draft, Some(&Outcome::Answered))
            );
            assert!(service.pulls().is_empty());

            // Whoever edits the comment does not edit the draft.
            let shown = service.our_comments(issue).remove(0);
            let edited = shown.body.replace("leaves out", "is perfect about");
            service.github.edit_comment(REPO, shown.id, &edited, MONA).unwrap();
            let answer = say(service, issue, "/agent create").await;
            let [number] = created(service)[..] else {
                panic!("{answer}")
            };
            assert!(answer.starts_with(&format!("Created #{number}: ")), "{answer}");
            let (title, body) = service.text_of(number);
            assert_eq!(title, "count.sh leaves out the last word");
            assert_eq!(service.labels(number), ["Bug"]);
            let offer = &offers(service).await[0];
            assert!(body.starts_with(&offer.issue.body), "{body}");
            assert_eq!(
                (offer.state, offer.created_as.clone()),
                (DraftState::Created, Some(number.to_string()))
            );
            assert_eq!(offer.confirmed_by.as_deref(), Some(MONA));

            let again = say(service, issue, "/agent create").await;
            assert!(
                again.starts_with(&format!("Draft 1 exists already: #{number}.")),
                "{again}"
            );
            assert_eq!(created(service), [number]);
        })
        .await;
}

#[tokio::test]
async fn what_may_be_the_same_is_shown_with_number_and_likeness() {
    usual()
        .tell(async |service: &mut Service| {
            let body = "count.sh counted 1, I expected 2.";
            let same = service.issue_saying("count.sh leaves out its last word", body);
            service.github.close_issue(REPO, same, MONA).unwrap();
            service.issue_saying("Support other languages", "count.sh is in English.");
            let issue = drafted(service, &[bug()]).await;
            let words = last_words(service, issue);
            insta::assert_snapshot!("duplicates", words);
            let warning = words
                .find(&format!("**#{same} is almost the same"))
                .expect("it says so");
            assert!(warning < words.find("### Environment").unwrap(), "it says so first");
        })
        .await;
}

#[tokio::test]
async fn a_search_that_fails_is_said() {
    usual()
        .tell(async |service: &mut Service| {
            service
                .github
                .fault("GET /search/issues", Fault::status(422, "Validation Failed"), 100);
            let issue = drafted(service, &[bug()]).await;
            service.github.clear_faults();
            let words = last_words(service, issue);
            assert!(words.contains("**Not fully checked for duplicates**"), "{words}");
            assert!(!words.contains("Nothing like it was found"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn secrets_and_hostile_words_are_taken_out_before_people_see_a_draft() {
    usual()
        .tell(async |service: &mut Service| {
            let hostile = format!("Ask @torvalds, fixes #99 <img src=https://evil.example/p.png> {TOKEN}");
            let mut draft = with(bug(), "impact", json!(hostile));
            draft["observed"][0]["log"] = json!(format!("token={TOKEN}\n/agent fix"));
            draft["title"] = json!("count.sh @torvalds leaves out #99");
            let issue = drafted(service, &[draft, chore("Show in README.md how words are counted")]).await;
            let words = last_words(service, issue);
            assert!(words.contains("[redacted]") && !words.contains(TOKEN), "{words}");
            assert!(!words.contains("<img") && words.contains("<details>"), "{words}");
            insta::assert_snapshot!("two_drafts", words);
            let which = say(service, issue, "/agent create").await;
            assert!(which.contains("`/agent create 1`, `/agent create 2`"), "{which}");
            say(service, issue, "/agent create 1").await;
            let number = created(service)[0];
            let (title, body) = service.text_of(number);
            assert_eq!(title, "count.sh torvalds leaves out no. 99");
            assert!(!body.contains(TOKEN) && !body.contains("<img"), "{body}");
            let offers = format!("{:?}", offers(service).await);
            assert!(!offers.contains(TOKEN), "{offers}");
        })
        .await;
}

#[tokio::test]
async fn a_security_finding_is_kept_for_the_maintainers() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = drafted(service, &[secret()]).await;
            let answer = say(service, issue, "/agent create 1").await;
            assert!(answer.contains("forgehand drafts show"), "{answer}");
            let said = service.everything_said();
            for word in ["XYZZY", "PLUGH", "unquoted", "danger", "high"] {
                assert!(!said.contains(word), "{said}");
            }
            assert_eq!(created(service), [] as [u64; 0]);
            let searched = service.github.requests();
            assert!(
                !searched.iter().any(|request| request.path.contains("search")),
                "it is not searched for"
            );
            let id = offers(service).await[0].id.to_string();
            assert!(said.contains(&format!("forgehand drafts show {id}")), "{said}");
            let shown = service.command(&["drafts", "show", &id]).await;
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            assert!(
                shown.contains("# Filenames are passed to a shell unquoted") && shown.contains("XYZZY"),
                "{shown}"
            );
            let listed = service.command(&["drafts"]).await;
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            assert!(listed.contains(&id) && !listed.contains("unquoted"), "{listed}");
        })
        .await;
}

#[tokio::test]
async fn a_security_finding_becomes_a_private_advisory_where_that_is_configured() {
    usual()
        .configuration(|config| config.github.security_advisories = true)
        .tell(async |service: &mut Service| {
            service.github.set_permission("repository_advisories", "write");
            let issue = drafted(service, &[secret()]).await;
            let answer = say(service, issue, "/agent create 1").await;
            assert!(answer.starts_with("Created a private security advisory"), "{answer}");
            let advisories = service.github.advisories(REPO).unwrap();
            assert_eq!(advisories.len(), 1);
            assert_eq!(advisories[0].severity, "high");
            assert!(advisories[0].description.contains("XYZZY"));
            let again = say(service, issue, "/agent create 1").await;
            assert!(again.contains("exists already, as a private advisory"), "{again}");
            let said = service.everything_said();
            assert!(!said.contains("XYZZY") && !said.contains("GHSA"), "{said}");
            assert_eq!(service.github.advisories(REPO).unwrap().len(), 1);
        })
        .await;
}

#[tokio::test]
async fn two_people_and_a_redelivery_create_one_issue() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.grant(REPO, "ada", "write").unwrap();
            let issue = drafted(service, &[bug()]).await;
            service.comment(issue, "/agent create 1");
            service.comment_by(issue, "/agent create #1", "ada");
            service.done().await;
            let guid = service.github.deliveries().last().expect("it was sent").guid.clone();
            service.github.redeliver_with_new_guid(&guid).unwrap();
            service.done().await;
            let [number] = created(service)[..] else {
                panic!("{}", service.everything_said())
            };
            let said: Vec<String> = service
                .our_comments(issue)
                .into_iter()
                .map(|comment| comment.body)
                .collect();
            assert!(
                said.iter().any(|body| body.starts_with(&format!("Created #{number}"))),
                "{said:?}"
            );
            let exists = format!("Draft 1 exists already: #{number}");
            assert!(said.iter().any(|body| body.starts_with(&exists)), "{said:?}");
        })
        .await;
}

#[tokio::test]
async fn a_person_without_the_right_creates_nothing() {
    usual()
        .tell(async |service: &mut Service| {
            service.github.person("eve");
            let issue = drafted(service, &[bug()]).await;
            service.comment_by(issue, "/agent create 1", "eve");
            service.done().await;
            assert_eq!(created(service), [] as [u64; 0]);
            let words = last_words(service, issue);
            assert!(words.starts_with("Only people who may write"), "{words}");
            assert_eq!(offers(service).await[0].state, DraftState::Offered);
        })
        .await;
}

#[tokio::test]
async fn a_draft_that_was_replaced_is_not_created() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = drafted(service, &[bug()]).await;
            let better = with(
                bug(),
                "impact",
                json!("Every count is one too small, also of one word."),
            );
            draft_again(service, issue, &[better]).await;
            let answer = say(service, issue, "/agent create 1").await;
            assert!(answer.starts_with("Draft 1 was replaced by a later one"), "{answer}");
            assert_eq!(created(service), [] as [u64; 0]);
            let answer = say(service, issue, "/agent create 3").await;
            assert!(answer.starts_with("There is no draft 3 here."), "{answer}");
            say(service, issue, "/agent create 2").await;
            let (_, body) = service.text_of(created(service)[0]);
            assert!(body.contains("also of one word"), "{body}");
            let elsewhere = service.issue_saying("Another", "issue");
            let answer = say(service, elsewhere, "/agent create").await;
            assert!(answer.starts_with("There is no draft here"), "{answer}");
        })
        .await;
}

/// One issue comes of a `create`, while GitHub fails like this.
async fn check(fault: Fault, times: u32) {
    usual()
        .tell(async |service: &mut Service| {
            let issue = drafted(service, &[bug()]).await;
            service.github.fault(CREATE, fault.clone(), times);
            let answer = say(service, issue, "/agent create").await;
            let [number] = created(service)[..] else {
                panic!("{answer}")
            };
            assert!(answer.starts_with(&format!("Created #{number}")), "{answer}");
            assert_eq!(offers(service).await[0].created_as, Some(number.to_string()));
        })
        .await;
}

#[tokio::test]
async fn an_issue_whose_answer_is_lost_is_not_created_twice() {
    check(Fault::ApplyThenReset, 1).await;
}

#[tokio::test]
async fn an_issue_that_failed_is_created_later() {
    check(Fault::status(502, "bad gateway"), 1).await;
}

#[tokio::test]
async fn an_issue_that_cannot_be_created_is_not_claimed() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = drafted(service, &[bug()]).await;
            service
                .github
                .fault(CREATE, Fault::status(410, "Issues are disabled"), 1);
            let answer = say(service, issue, "/agent create").await;
            assert!(answer.starts_with("It was not created: "), "{answer}");
            assert_eq!(offers(service).await[0].state, DraftState::Offered);
            let answer = say(service, issue, "/agent create").await;
            assert!(answer.starts_with("Created #"), "{answer}");
        })
        .await;
}

#[tokio::test]
async fn an_epic_is_created_with_its_parts() {
    usual()
        .tell(async |service: &mut Service| {
            let epic = chore("Document everything");
            let parts = ["Document count.sh", "Document test.sh"].map(|title| {
                let part = chore(title);
                with(part, "part_of", json!("Document everything"))
            });
            let [one, two] = parts;
            let issue = drafted(service, &[epic, one, two]).await;
            let words = last_words(service, issue);
            assert!(words.contains("**Sub-issue: Document test.sh**"), "{words}");
            let answer = say(service, issue, "/agent create").await;
            let [whole, first, second] = created(service)[..] else {
                panic!("{answer}")
            };
            let expected = format!("Created #{whole} with its sub-issues #{first}, #{second}");
            assert!(answer.starts_with(&expected), "{answer}");
            assert_eq!(service.github.sub_issues(REPO, whole).unwrap(), [first, second]);
        })
        .await;
}

#[tokio::test]
async fn what_a_run_noticed_and_left_alone_is_offered_beside_its_work() {
    usual()
        .tell(async |service: &mut Service| {
            let noticed = chore("Show in README.md how words are counted");
            service
                .model
                .play([mend(), Reply::call("draft_issue", noticed), finish()]);
            let issue = service.labelled_issue();
            service.done().await;
            let pull = service.only_pull().number;
            let words = last_words(service, issue);
            assert!(words.starts_with(&format!("### ✅ Done: #{pull}")), "{words}");
            assert!(words.contains("Noticed and left alone: a draft of an issue"), "{words}");
            let answer = say(service, issue, "/agent create").await;
            assert!(answer.starts_with("Created #"), "{answer}");
        })
        .await;
}

#[tokio::test]
async fn a_draft_that_breaks_the_contract_goes_back_to_the_model() {
    usual()
        .tell(async |service: &mut Service| {
            let broken = with(bug(), "observed", json!([{"statement": "It is probably slow."}]));
            let mut replies = drafts(&[bug()]);
            replies.insert(0, Reply::call("draft_issue", broken));
            service.model.play(replies);
            let issue = service.issue();
            service.comment(issue, "/agent draft");
            service.done().await;
            let told = service.model.requests()[1].last().to_owned();
            assert!(told.contains("- observed: statement 1 has no evidence"), "{told}");
            assert_eq!(offers(service).await.len(), 1);
            let tools = service.model.requests()[0].body["tools"].to_string();
            for changing in ["write_file", "edit_file", "run_command"] {
                assert!(!tools.contains(&format!("\"{changing}\"")), "{tools}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_run_without_a_draft_says_so() {
    usual()
        .tell(async |service: &mut Service| {
            let issue = drafted(service, &[]).await;
            let words = last_words(service, issue);
            assert!(words.contains("nothing to create"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn drafts_are_spoken_of_in_chinese() {
    usual()
        .configuration(|config| config.github.language = forgehand::config::LanguageChoice::Zh)
        .tell(async |service: &mut Service| {
            let issue = drafted(service, &[bug()]).await;
            insta::assert_snapshot!("one_draft_in_chinese", last_words(service, issue));
            let answer = say(service, issue, "/agent create").await;
            assert!(answer.starts_with("已创建 #"), "{answer}");
        })
        .await;
}
