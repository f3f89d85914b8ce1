//! Tables of deliveries and what is made of each, written as GitHub writes them.

use serde_json::{Value, json};

use super::*;
use crate::ids::{CommentId, CommitSha, IssueNumber, UserId};
use crate::intake::payload::BadDelivery;

mod verbs;

fn rules() -> Rules {
    Rules {
        label: "agent".to_owned(),
        own_label: Some("Robot".to_owned()),
        command: "/agent".to_owned(),
        language: Language::English,
        app_id: Some(AppId(77)),
        bot_slug: Some("forgehand".to_owned()),
        allowed_apps: vec![AppId(88)],
        max_attempts: 5,
    }
}

fn person() -> Value {
    json!({"id": 1, "login": "mona", "type": "User"})
}

fn ourselves() -> Value {
    json!({"id": 900, "login": "forgehand[bot]", "type": "Bot"})
}

fn issue() -> Value {
    json!({"number": 12, "title": "Crash", "body": null, "state": "open", "user": null,
        "labels": [{"name": "Agent"}], "updated_at": "2026-01-02T03:04:05Z"})
}

fn pull() -> Value {
    json!({"number": 13, "title": "Fix", "body": "text", "state": "open", "user": person(),
        "head": {"sha": "a".repeat(40), "repo": null}})
}

fn comment(body: &str) -> Value {
    json!({"id": 500, "body": body, "user": person(), "performed_via_github_app": null, "line": null,
        "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z", "pull_request_review_id": 600})
}

/// A body with what every event has, and `parts` on top.
fn body(action: &str, parts: Value) -> Value {
    let mut body = json!({"action": action, "sender": person(), "installation": {"id": 3},
        "repository": {"id": 2, "full_name": "octo/widgets", "added_later": true}});
    for (key, value) in parts.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn parse(event: &str, body: &Value) -> Result<Delivery, BadDelivery> {
    Delivery::parse("guid-1", event, body.to_string().into_bytes(), DateTime::UNIX_EPOCH)
}

#[track_caller]
fn only(event: &str, body: &Value) -> Intent {
    let mut intents = triage(&parse(event, body).unwrap(), &rules());
    assert_eq!(intents.len(), 1, "{intents:?}");
    intents.remove(0)
}

#[track_caller]
fn started(event: &str, body: &Value) -> NewJob {
    match only(event, body) {
        Intent::Start(job) => *job,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn ignored(event: &str, body: &Value, reason: &str) {
    match only(event, body) {
        Intent::Ignore(why) => assert_eq!(why, reason),
        other => panic!("{other:?}"),
    }
}

fn labelled(parts: Value) -> Value {
    let mut all = json!({"issue": issue(), "label": {"name": "Agent"}});
    for (key, value) in parts.as_object().unwrap() {
        all[key] = value.clone();
    }
    body("labeled", all)
}

fn commented(text: &str, parts: Value) -> Value {
    let mut all = json!({"issue": issue(), "comment": comment(text)});
    for (key, value) in parts.as_object().unwrap() {
        all[key] = value.clone();
    }
    body("created", all)
}

#[test]
fn the_repositorys_own_label_starts_work_too() {
    let own = |name: &str| labelled(json!({"label": {"name": name}}));
    assert_eq!(started("issues", &own("robot")).kind, JobKind::Fix);
    ignored("issues", &own("robots"), "another label");
}

#[test]
fn w1_a_label_starts_work_whatever_its_case() {
    let job = started("issues", &labelled(json!({})));
    assert_eq!(job.kind, JobKind::Fix);
    assert_eq!(job.subject, Subject::Issue(IssueNumber(12)));
    assert_eq!(job.dedupe_key.as_deref(), Some("fix:2:issue/12"));
    assert_eq!(
        job.request.trigger,
        Trigger::Label {
            label: "Agent".to_owned()
        }
    );
    assert_eq!(
        job.request.actor,
        Actor {
            id: UserId(1),
            login: "mona".to_owned(),
            is_bot: false
        }
    );
    assert_eq!(job.request.triggered_at.to_rfc3339(), "2026-01-02T03:04:05+00:00");
    // W11, W4: no body, no author.
    assert_eq!(
        job.pins,
        Pins {
            title: Some("Crash".to_owned()),
            body: Some(String::new()),
            ..Pins::default()
        }
    );
    ignored(
        "issues",
        &labelled(json!({"label": {"name": "agents"}})),
        "another label",
    );
    ignored("issues", &labelled(json!({"label": null})), "another label");
}

#[test]
fn labels_on_pull_requests_mean_nothing() {
    let mut pull_issue = issue();
    pull_issue["pull_request"] = json!({"url": "…"});
    ignored(
        "issues",
        &labelled(json!({"issue": pull_issue})),
        "labels on pull requests mean nothing",
    );
    let labelled = body("labeled", json!({"pull_request": pull(), "label": {"name": "agent"}}));
    ignored("pull_request", &labelled, "nothing is made of this action");
}

#[test]
fn p04_p06_t1_t5_only_people_start_work() {
    let bot = json!({"id": 5, "login": "renovate[bot]", "type": "Bot"});
    for (sender, reason) in [
        (ourselves(), "our own act"),
        (bot.clone(), "a bot that is not listed"),
        (
            json!({"id": 6, "login": "Copilot", "type": "Bot"}),
            "a bot that is not listed",
        ),
        (
            json!({"id": 6, "login": "odd[bot]", "type": "User"}),
            "a bot that is not listed",
        ),
        (
            json!({"id": 7, "login": "octo", "type": "Organization"}),
            "the sender is not a person",
        ),
        (json!({"id": 7, "login": "mona"}), "the sender is not a person"),
        (
            json!({"id": 7, "login": "mo\u{0}na", "type": "User"}),
            "the sender is not a person",
        ),
        (
            json!({"id": 7, "login": "", "type": "User"}),
            "the sender is not a person",
        ),
        (Value::Null, "nobody is named as the sender"),
    ] {
        ignored("issues", &labelled(json!({"sender": sender})), reason);
        ignored(
            "issue_comment",
            &commented("/agent fix", json!({"sender": sender})),
            reason,
        );
        let review = json!({"id": 600, "body": "/agent fix", "submitted_at": "2026-01-02T03:04:05Z"});
        let review = body(
            "submitted",
            json!({"pull_request": pull(), "review": review, "sender": sender}),
        );
        ignored("pull_request_review", &review, reason);
    }
    let through = |app: u64, sender: &Value| {
        let mut comment = comment("/agent fix");
        comment["performed_via_github_app"] = json!({"id": app});
        commented("", json!({"comment": comment, "sender": sender}))
    };
    ignored("issue_comment", &through(77, &person()), "our own act");
    ignored(
        "issue_comment",
        &through(99, &person()),
        "written through an App that is not listed",
    );
    ignored("issue_comment", &through(77, &bot), "our own act");
    let job = started("issue_comment", &through(88, &bot));
    assert!(job.request.actor.is_bot);
}

#[test]
fn p05_numbers_are_compared_and_not_letters() {
    for app in [880, 188, 8, 89, 8_888] {
        let mut body = commented("/agent fix", json!({}));
        body["comment"]["performed_via_github_app"] = json!({"id": app, "slug": "eighty-eight", "name": "88"});
        ignored("issue_comment", &body, "written through an App that is not listed");
    }
    for login in ["mona ", "mona\n", " mona", "mo na", "mona@", "m\u{43e}na", ""] {
        let mut body = commented("/agent fix", json!({}));
        body["sender"]["login"] = json!(login);
        ignored("issue_comment", &body, "the sender is not a person");
    }
    let mut body = commented("/agent fix", json!({}));
    body["sender"]["id"] = json!(12_345);
    assert_eq!(started("issue_comment", &body).request.actor.id, UserId(12_345));
    body["sender"]["id"] = json!("1234");
    assert!(parse("issue_comment", &body).is_err(), "a number in letters is no id");
}

#[test]
fn commands_in_comments_become_jobs() {
    let job = started("issue_comment", &commented("/agent fix only the lexer", json!({})));
    assert_eq!((job.kind, job.priority), (JobKind::Fix, 0));
    assert_eq!(job.request.instructions, "only the lexer");
    assert_eq!(job.request.trigger, Trigger::Comment { id: CommentId(500) });
    assert_eq!(job.dedupe_key.as_deref(), Some("fix:2:issue/12:comment-500"));
    let mut pull_issue = issue();
    pull_issue["pull_request"] = json!({"url": "…"});
    let job = started("issue_comment", &commented("/agent stop", json!({"issue": pull_issue})));
    assert_eq!((job.kind, job.subject), (JobKind::Stop, Subject::Pull(IssueNumber(12))));
    assert_eq!(job.priority, CONTROL_PRIORITY);
    ignored(
        "issue_comment",
        &commented("please /agent fix", json!({})),
        "no command",
    );
    let edited = body(
        "edited",
        json!({"issue": issue(), "comment": comment("/agent fix"), "changes": {}}),
    );
    ignored("issue_comment", &edited, "edited comments start nothing"); // P09
}

#[test]
fn t14_the_deliveries_of_one_review_share_a_key() {
    let line = |review_id: Value| {
        let mut comment = comment("/agent fix");
        comment["pull_request_review_id"] = review_id;
        body("created", json!({"pull_request": pull(), "comment": comment}))
    };
    let review =
        json!({"id": 600, "body": "/agent fix all", "submitted_at": "2026-01-02T03:04:05Z", "state": "commented"});
    let whole = body("submitted", json!({"pull_request": pull(), "review": review}));
    let (a, b) = (
        started("pull_request_review", &whole),
        started("pull_request_review_comment", &line(json!(600))),
    );
    assert_eq!(a.dedupe_key, b.dedupe_key);
    assert_eq!(a.dedupe_key.as_deref(), Some("fix:2:pull/13:review-600"));
    assert_eq!(a.pins.head_sha, Some(CommitSha::try_from("a".repeat(40)).unwrap()));
    assert!(matches!(
        only("pull_request_review_comment", &line(Value::Null)),
        Intent::Join(_)
    ));
}

#[test]
fn withdrawn_triggers_stop_work() {
    let unlabelled = |sender: Value| {
        body(
            "unlabeled",
            json!({"issue": issue(), "label": {"name": "AGENT"}, "sender": sender}),
        )
    };
    let withdrawn = only("issues", &unlabelled(person()));
    assert!(
        matches!(
            withdrawn,
            Intent::CancelTrigger {
                trigger: Trigger::Label { .. },
                ..
            }
        ),
        "{withdrawn:?}"
    );
    ignored("issues", &unlabelled(ourselves()), "we removed the label ourselves");
    for (action, reason) in [
        ("closed", "the issue was closed"),
        ("deleted", "the issue was deleted"),
        ("transferred", "the issue was moved to another repository"),
    ] {
        let expected = Intent::CancelSubject {
            repo: RepoId(2),
            subject: Subject::Issue(IssueNumber(12)),
            reason,
        };
        assert_eq!(only("issues", &body(action, json!({"issue": issue()}))), expected);
    }
    let deleted = body("deleted", json!({"issue": issue(), "comment": comment("/agent fix")}));
    let expected = Trigger::Comment { id: CommentId(500) };
    let withdrawn = only("issue_comment", &deleted);
    assert!(
        matches!(&withdrawn, Intent::CancelTrigger { trigger, .. } if *trigger == expected),
        "{withdrawn:?}"
    );
    let closed = only("pull_request", &body("closed", json!({"pull_request": pull()})));
    assert!(
        matches!(
            closed,
            Intent::CancelSubject {
                subject: Subject::Pull(_),
                ..
            }
        ),
        "{closed:?}"
    );
}

#[test]
fn installations_come_and_go() {
    let account = json!({"id": 3, "account": {"id": 4, "login": "octo"}});
    let repos = json!([{"id": 2, "full_name": "octo/widgets"}, {"id": 9, "full_name": "octo/gears"}]);
    let installation =
        |action: &str| json!({"action": action, "installation": account, "repositories": repos, "sender": person()});
    let intents = |event: &str, body: &Value| triage(&parse(event, body).unwrap(), &rules());
    let held = intents("installation", &installation("created"));
    assert!(
        held.len() == 2 && matches!(held[0], Intent::RepoHeld { .. }),
        "{held:?}"
    );
    for action in ["deleted", "suspend"] {
        let ended = intents("installation", &installation(action));
        assert!(
            ended.len() == 3 && matches!(ended[0], Intent::InstallationEnded { .. }),
            "{ended:?}"
        );
    }
    assert_eq!(
        intents("installation", &installation("unsuspend")),
        [Intent::InstallationResumed(InstallationId(3))]
    );
    let changed =
        json!({"action": "removed", "installation": account, "repositories_added": [], "repositories_removed": repos});
    let gone = intents("installation_repositories", &changed);
    assert!(
        gone.len() == 2 && matches!(gone[0], Intent::RepoGone { .. }),
        "{gone:?}"
    );
    assert!(matches!(
        only("repository", &body("renamed", json!({"changes": {}}))),
        Intent::RepoRenamed(_)
    ));
    assert!(matches!(
        only("repository", &body("transferred", json!({"changes": {}}))),
        Intent::RepoMoved { .. }
    ));
    assert!(matches!(
        only("repository", &body("deleted", json!({}))),
        Intent::RepoGone { .. }
    ));
}

#[test]
fn without_installation_repository_or_time_nothing_starts() {
    ignored(
        "issues",
        &labelled(json!({"installation": null})),
        "not sent to an installation of the App",
    );
    ignored(
        "issues",
        &labelled(json!({"repository": null})),
        "no repository is named",
    );
    let mut timeless = issue();
    timeless["updated_at"] = json!("yesterday");
    ignored(
        "issues",
        &labelled(json!({"issue": timeless})),
        "the time of the trigger is not known",
    ); // P08c
}

#[track_caller]
fn check_refused(event: &str, body: &Value, problem: &str) {
    match parse(event, body) {
        Err(error) => assert!(error.to_string().contains(problem), "{error}"),
        Ok(delivery) => panic!("{delivery:?}"),
    }
}

#[test]
fn w07c_the_body_must_be_that_of_the_event() {
    let comment_body = commented("/agent fix", json!({}));
    check_refused("issues", &comment_body, "`comment` does not belong there");
    check_refused("pull_request", &comment_body, "`comment` does not belong there");
    check_refused(
        "pull_request_review_comment",
        &comment_body,
        "`issue` does not belong there",
    );
    check_refused("installation", &comment_body, "does not belong there");
    check_refused(
        "installation_repositories",
        &comment_body,
        "`installation.account` is missing",
    );
    check_refused("issue_comment", &labelled(json!({})), "`comment` is missing");
    let deleted_label = body("deleted", json!({"label": {"name": "x"}}));
    check_refused("repository", &deleted_label, "`label` does not belong there");
    check_refused("issues", &labelled(json!({"issue": "12"})), "`issue`");
    check_refused("issues", &labelled(json!({"issue": {"number": -1}})), "`issue`");
    check_refused(
        "issues",
        &labelled(json!({"repository": {"id": 2, "full_name": "../.."}})),
        "`repository`",
    );
    check_refused("issues", &json!([1]), "an object is expected");
    check_refused("no such\nevent", &json!({}), "X-GitHub-Event");
    // Nothing is made of these, so they may look like anything.
    assert_eq!(
        parse("star", &json!({"repository": 5, "sender": []})).unwrap().payload,
        Payload::Other
    );
}

#[test]
fn w07b_the_same_event_has_the_same_meaning_and_the_next_has_another() {
    let key = |event: &str, body: &Value| parse(event, body).unwrap().semantic_key();
    assert_eq!(
        key("issues", &labelled(json!({}))),
        "issues:labeled:2:12:agent:001767323045"
    );
    let told_again = labelled(json!({"sender": {"id": 1, "login": "renamed", "type": "User"}}));
    assert_eq!(key("issues", &labelled(json!({}))), key("issues", &told_again));
    let mut later = issue();
    later["updated_at"] = json!("2026-01-02T03:04:06Z");
    assert_ne!(
        key("issues", &labelled(json!({}))),
        key("issues", &labelled(json!({"issue": later})))
    );
    assert_eq!(
        key("issue_comment", &commented("x", json!({}))),
        "issue_comment:created:2:500:1767323045"
    );
    // A repository's own webhook must not take the place of the App's.
    let own_webhook = labelled(json!({"installation": null}));
    assert!(
        key("issues", &own_webhook).starts_with("issues:labeled:body:"),
        "{}",
        key("issues", &own_webhook)
    );
}

#[test]
fn only_failed_checks_of_others_are_worth_a_look() {
    let sha = "b".repeat(40);
    let run = |conclusion: Value, app: u64| json!({"check_run": {"head_sha": sha, "conclusion": conclusion, "app": {"id": app}}});
    let suite = |conclusion: &str| json!({"check_suite": {"head_sha": sha, "conclusion": conclusion, "app": null}});
    let status = |state: &str| {
        let mut status = body("", json!({"sha": sha, "state": state}));
        status.as_object_mut().unwrap().remove("action");
        status
    };
    let failed = Intent::ChecksFailed {
        repo: RepoId(2),
        sha: CommitSha::try_from(sha.clone()).unwrap(),
        max_attempts: 5,
    };
    for (event, delivery, expected) in [
        ("check_run", body("completed", run(json!("failure"), 1)), Ok(())),
        ("check_run", body("completed", run(json!("timed_out"), 1)), Ok(())),
        ("check_suite", body("completed", suite("failure")), Ok(())),
        ("status", status("error"), Ok(())),
        ("status", status("failure"), Ok(())),
        (
            "check_run",
            body("completed", run(json!("failure"), 77)),
            Err("our own check"),
        ),
        (
            "check_run",
            body("completed", run(json!("success"), 1)),
            Err("no check failed"),
        ),
        (
            "check_run",
            body("completed", run(json!("cancelled"), 1)),
            Err("no check failed"),
        ),
        (
            "check_run",
            body("created", run(json!("failure"), 1)),
            Err("no check failed"),
        ),
        (
            "check_run",
            body("completed", run(Value::Null, 1)),
            Err("no check failed"),
        ),
        (
            "check_suite",
            body("requested", suite("failure")),
            Err("no check failed"),
        ),
        ("status", status("pending"), Err("no check failed")),
        (
            "check_run",
            body(
                "completed",
                json!({"check_run": {"head_sha": "x", "conclusion": "failure"}}),
            ),
            Err("the commit is not named"),
        ),
    ] {
        let intent = only(event, &delivery);
        match expected {
            Ok(()) => assert_eq!(intent, failed, "{event} {delivery}"),
            Err(reason) => assert_eq!(intent, Intent::Ignore(reason), "{event} {delivery}"),
        }
    }
    let missing = parse("check_run", &body("completed", json!({})));
    assert!(missing.is_err(), "{missing:?}");
}

#[test]
fn pushes_to_pull_requests_are_told_of_when_a_person_pushed() {
    let pushed = |sender: Value| body("synchronize", json!({"pull_request": pull(), "sender": sender}));
    let Intent::HeadMoved { subject, note, .. } = only("pull_request", &pushed(person())) else {
        panic!("a person pushed");
    };
    assert_eq!(subject, Subject::Pull(IssueNumber(13)));
    assert!(note.starts_with("mona pushed aaaaaaa"), "{note}");
    assert_eq!(
        only("pull_request", &pushed(ourselves())),
        Intent::Ignore("our own act")
    );
    let reopened = body("reopened", json!({"pull_request": pull()}));
    assert!(matches!(only("pull_request", &reopened), Intent::Ignore(_)));
    let deleted = body("deleted", json!({"issue": issue()}));
    assert!(matches!(only("issues", &deleted), Intent::CancelSubject { .. }));
}
