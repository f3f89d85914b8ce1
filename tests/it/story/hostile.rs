//! Two hundred hostile transcripts: whatever a model says and strangers write, the App writes only
//! to the place that a job is about, calls nobody, closes nothing, loads nothing, tells no secret
//! and leaves valid Markdown. Each transcript goes through a real run and real publishing.
//! Never looks at what the program would say for itself, only at what GitHub was sent.

use std::collections::{BTreeMap, BTreeSet};

use forgehand::demo::double::NewPullByPerson;
use forgehand::job::{Job, Outcome};
use forgehand::secret::Secret;
use forgehand::text::cap_middle;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, Setup, until, usual};

mod strings;
mod watch;

use strings::{Dice, FOREIGN, KEY, KINDS, PRIVATE, hostile};
use watch::Own;

/// All of them, over both databases and all verbs.
const TRANSCRIPTS: usize = 200;
/// Transcripts that go on at once.
const FEW: usize = 6;
/// The seed of the usual run; `FORGEHAND_TEST_SEED` names another.
const SEED: u64 = 4_711;

/// What a transcript is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Fix,
    Steer,
    Rebase,
    Plan,
    Ask,
    Review,
    Draft,
}

const VERBS: [Verb; 7] = [
    Verb::Fix,
    Verb::Ask,
    Verb::Plan,
    Verb::Draft,
    Verb::Review,
    Verb::Rebase,
    Verb::Steer,
];

/// One hostile run.
struct Transcript {
    index: usize,
    verb: Verb,
    kind: usize,
    dice: Dice,
    /// The issue or pull request that it is about.
    number: u64,
    /// The branch of its pull request, if it has one.
    branch: Option<String>,
    gate: CancellationToken,
}

impl Transcript {
    /// Those of one story: each verb goes through most kinds of text, and each kind through many verbs.
    fn of(verbs: &[Verb], database: &str) -> Vec<Self> {
        let seed = std::env::var("FORGEHAND_TEST_SEED").ok();
        let seed = seed.map_or(SEED, |seed| seed.parse().expect("FORGEHAND_TEST_SEED is a number"));
        eprintln!("hostile transcripts with FORGEHAND_TEST_SEED={seed} on {database}");
        let half = usize::from(database == "postgres");
        (0..TRANSCRIPTS)
            .map(|index| Self {
                index,
                verb: VERBS[index % VERBS.len()],
                kind: index / VERBS.len() + (index % VERBS.len()) * 5,
                dice: Dice::new(seed ^ (index as u64) << 20),
                number: 0,
                branch: None,
                gate: CancellationToken::new(),
            })
            .filter(|one| verbs.contains(&one.verb) && (one.index / VERBS.len()) % 2 == half)
            .collect()
    }

    /// The word by which the model knows it.
    fn word(&self) -> String {
        format!("Transcript-{:03}", self.index)
    }

    /// A hostile text: one of the transcript's own kind and often one more, of a length that lets many
    /// go through one service.
    fn text(&mut self) -> String {
        self.long_text().chars().take(1_500).collect()
    }

    /// The same, as long as it comes.
    fn long_text(&mut self) -> String {
        let text = hostile(self.kind % KINDS, &mut self.dice);
        if self.dice.below(3) == 0 {
            return text;
        }
        let other = self.dice.below(KINDS);
        format!(
            "{}\n{text}",
            hostile(other, &mut self.dice).chars().take(1_500).collect::<String>()
        )
    }

    /// One that GitHub itself would take from a person.
    fn stranger(&mut self) -> String {
        let text = self.text();
        text.chars().filter(|c| *c != '\0').take(60_000).collect()
    }

    fn body(&mut self) -> String {
        let text = self.long_text();
        let text: String = text.chars().filter(|c| *c != '\0').take(60_000).collect();
        format!("{}\n{text}", self.word())
    }

    fn title(&mut self) -> String {
        let text: String = self.stranger().replace('\n', " ").chars().take(200).collect();
        format!("{} {text}", self.word())
    }

    fn script(&mut self) -> Vec<Reply> {
        match self.verb {
            Verb::Fix => vec![self.change(), self.finish()],
            Verb::Steer => {
                let gate = self.gate.clone();
                vec![self.change().after(&gate), self.finish()]
            }
            Verb::Rebase => vec![
                Reply::call(
                    "run_command",
                    json!({"command": "printf 'both\\n' > README.md; git diff"}),
                ),
                self.finish(),
            ],
            Verb::Plan => vec![Reply::call("propose_plan", self.plan())],
            Verb::Ask => {
                let look = json!({"path": self.text(), "pattern": self.text()});
                vec![
                    Reply::call("grep", look),
                    Reply::call("finish", json!({"answer": self.long_text()})),
                ]
            }
            Verb::Review => vec![Reply::call("finish", self.review())],
            Verb::Draft => vec![
                Reply::call("draft_issue", self.draft()),
                Reply::call("finish", json!({"summary": self.long_text()})),
            ],
        }
    }

    /// Writes hostile contents into a file with a hostile name.
    fn change(&mut self) -> Reply {
        let name: String = self
            .text()
            .chars()
            .filter(|c| !matches!(c, '\0' | '/' | '\n'))
            .take(60)
            .collect();
        let name = name.trim().trim_matches('.').trim();
        let write = |path: String, content: String| ("write_file", json!({"path": path, "content": content}));
        let step = json!({"steps": [{"step": self.text(), "done": true}]});
        let run = json!({"command": format!("echo {} >/dev/null; git diff", self.text())});
        Reply::calls(&[
            write(format!("notes-{}.txt", self.index), self.text()),
            write(format!("x{name}"), self.text()),
            ("plan", step),
            ("run_command", run),
            ("run_command", json!({"command": "sh test.sh; git diff"})),
        ])
    }

    fn finish(&mut self) -> Reply {
        let (title, summary, risks, not_done) = (self.text(), self.text(), self.text(), self.text());
        let status = self
            .dice
            .pick(&["done", "done", "done", "done", "nothing_to_do", "refused"]);
        let all = json!({
            "status": status, "title": title, "summary": format!("Done. {summary}{}", self.long_text()), "risks": risks, "not_done": not_done,
        });
        Reply::call("finish", all)
    }

    fn plan(&mut self) -> Value {
        json!({
            "summary": format!("A plan. {}", self.text()),
            "steps": [self.text(), self.text()], "files": [self.text()], "tests": [self.text()], "risks": [self.text()],
        })
    }

    fn review(&mut self) -> Value {
        let file = format!("{}.txt", self.word());
        let mut finding = |file: &str, line: u32| {
            let replacement: String = self.text().replace('\n', " ");
            json!({"file": file, "line": line, "severity": "major", "problem": self.text(), "replacement": replacement})
        };
        let findings = [
            finding(&file, 1),
            finding(&file, 2),
            finding("README.md", 999),
            finding("@torvalds/`x`\n", 1),
        ];
        json!({
            "verdict": "needs_fix", "summary": format!("Read. {}", self.long_text()), "findings": findings,
            "foundation": 1, "foundation_why": self.text(), "over_engineering": 2, "over_engineering_why": self.text(),
            "volume": 3, "volume_why": self.text(), "terminology": 0, "terminology_why": self.text(),
        })
    }

    fn draft(&mut self) -> Value {
        let title: String = self.text().replace('\n', " ").chars().take(40).collect();
        let mut line = || -> String { self.text().chars().take(400).collect() };
        json!({
            "kind": "bug",
            "title": format!("count.sh leaves out a word {title}"),
            "environment": format!("sh {}", line()),
            "reproduction": [format!("Run it. {}", line())],
            "observed": [{"statement": format!("It prints 1 for two words. {}", line()), "file": "count.sh:2",
                          "command": line(), "log": line(), "symbol": line()}],
            "expected": [format!("It prints 2. {}", line())],
            "hypotheses": [line()],
            "impact": format!("Every count is too small. {}", line()),
            "scope": [format!("count.sh {}", line())],
            "acceptance_criteria": [format!("`sh test.sh` passes. {}", line())],
            "validation": [format!("`sh test.sh` {}", line())],
            "labels": ["bug", "urgent", line()],
        })
    }
}

/// A quick repository with a neighbour that nobody speaks of, and a key that nobody may see.
fn stage() -> Setup {
    usual()
        .repository(|seed| {
            seed.file("count.sh", "echo $(( $(wc -w) ))\n")
                .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
                .file("README.md", "one\n")
                .commit("Count words")
        })
        .configuration(|config| {
            config.model.api_key = Some(Secret::new(KEY));
            config.queue.answer_days = 0.0;
            config.queue.workers = 3;
            config.queue.lease_seconds = std::time::Duration::from_secs(30);
            config.github.write_interval_seconds = std::time::Duration::ZERO;
        })
}

async fn neighbours(service: &Service) {
    let github = &service.github;
    for repo in [PRIVATE, FOREIGN] {
        let seed = github.repository(repo).private();
        seed.file("secret.txt", "private\n")
            .commit("Secret")
            .create()
            .await
            .unwrap();
    }
    github.grant(PRIVATE, MONA, "admin").unwrap();
    github
        .open_issue(PRIVATE, "Private", "Nobody else's business.", &[], MONA)
        .unwrap();
    github.uninstall(FOREIGN).unwrap();
    github.person("eve");
    github.add_repo_label(REPO, "bug").unwrap();
    // The one that hostile words want closed.
    let decoy = service.issue_saying("A decoy", "Nothing to do here.");
    assert_eq!(decoy, 1);
    github
        .close_issue(REPO, service.issue_saying("Other", "x"), MONA)
        .unwrap();
}

/// Opens what the transcript is about, with hostile words of a stranger.
async fn open(service: &Service, one: &mut Transcript) {
    let github = &service.github;
    let (title, body) = (one.title(), one.body());
    one.number = match one.verb {
        Verb::Review | Verb::Rebase => {
            let branch = format!("feature-{}", one.index);
            let file = match one.verb {
                Verb::Rebase => ("README.md".to_owned(), format!("mine {}\n", one.index)),
                _ => (format!("{}.txt", one.word()), format!("one\n{}\n", one.stranger())),
            };
            let message: String = one.stranger().chars().take(2_000).collect();
            let files = [(file.0.as_str(), file.1.as_str())];
            github
                .push(REPO, &branch, &files, &format!("Change\n\n{message}"), "eve")
                .await
                .unwrap();
            let new = NewPullByPerson {
                head_repo: REPO,
                head: &branch,
                base: "main",
                title: &title,
                body: &body,
                by: "eve",
            };
            let number = github.open_pull(REPO, new).await.unwrap();
            one.branch = Some(branch);
            number
        }
        _ => github.open_issue(REPO, &title, &body, &[], "eve").unwrap(),
    };
    let words = format!("It happens here, too. {}", one.stranger());
    // A stranger's command is refused, which is another story.
    let words: String = words
        .replace("/agent", "/ agent")
        .replace("/AGENT", "/ AGENT")
        .chars()
        .take(60_000)
        .collect();
    service.comment_by(one.number, &words, "eve");
}

/// Mona asks, with hostile words behind the verb.
fn ask(service: &Service, one: &mut Transcript) {
    let words: String = one.stranger().chars().take(3_000).collect();
    let verb = match one.verb {
        Verb::Fix | Verb::Steer => return service.label(one.number),
        Verb::Rebase => "rebase",
        Verb::Plan => "plan",
        Verb::Ask => "ask",
        Verb::Review => "review",
        Verb::Draft => "draft",
    };
    service.comment(one.number, &format!("/agent {verb} Please look. {words}"));
}

/// While the work goes on, mona says more.
async fn steer(service: &Service, one: &mut Transcript) {
    let word = one.word();
    until("the model is asked", async || service.model.was_asked_for(&word)).await;
    let words: String = one.stranger().chars().take(3_000).collect();
    service.comment(one.number, &format!("/agent fix Mind this. {words}"));
    until("she is answered", async || service.our_comments(one.number).len() > 1).await;
    one.gate.cancel();
}

/// Everything that was written is for a transcript's own place and harmless.
async fn check(service: &Service, transcripts: &[Transcript]) {
    let github = &service.github;
    let requests = github.requests();
    assert_eq!(
        watch::strayed(&requests),
        Vec::<String>::new(),
        "P16: other repositories are asked for nothing"
    );
    for search in requests.iter().filter(|request| request.path.starts_with("/search")) {
        assert!(search.query.contains("octo%2Fwords"), "{search:?}");
    }
    let known = known_numbers(service, transcripts);
    let mut wrong = Vec::new();
    let mut comments: BTreeMap<u64, u64> = BTreeMap::new();
    for number in known.keys() {
        comments.extend(
            github
                .comments(REPO, *number)
                .unwrap()
                .iter()
                .map(|comment| (comment.id, *number)),
        );
    }
    let ours: BTreeSet<u64> = known
        .keys()
        .flat_map(|number| service.our_comments(*number))
        .map(|comment| comment.id)
        .collect();
    for write in github.ledger() {
        let what = format!("{} {}", write.method, write.path);
        let number = match watch::place(&write, &comments) {
            Ok(number) => number,
            Err(problem) => {
                wrong.push(problem);
                continue;
            }
        };
        let own = match number {
            Some(number) => match known.get(&number) {
                Some(own) => own.clone(),
                None => {
                    wrong.push(format!("{what} is for nobody's issue"));
                    continue;
                }
            },
            None => created(&write.answer, &known),
        };
        let edits_comment = write.method == "PATCH" && write.path.contains("/comments/");
        if edits_comment && !ours.iter().any(|id| write.path.ends_with(&format!("/{id}"))) {
            wrong.push(format!("{what} edits somebody else's comment"));
        }
        for (field, text) in watch::texts(&write.body) {
            let problems = match field.as_str() {
                "body" | "summary" | "text" => watch::problems(&text, &own),
                "title" => watch::problems_of_plain(&text),
                _ => watch::problems_of_words(&text),
            };
            wrong.extend(
                problems
                    .into_iter()
                    .map(|p| format!("{what} ({field}) {p}\n--\n{}\n--", cap_middle(&text, 3_000))),
            );
        }
        wrong.extend(watch::misused(&write, &what));
    }
    check_repository(service, transcripts, &mut wrong).await;
    let count = wrong.len();
    wrong.truncate(8);
    assert!(wrong.is_empty(), "{count} problems:\n{}", wrong.join("\n\n"));
}

/// The numbers that the App may write to, with what may be said there.
fn known_numbers(service: &Service, transcripts: &[Transcript]) -> BTreeMap<u64, Own> {
    let github = &service.github;
    let mut known = BTreeMap::new();
    let own = |numbers: Vec<u64>, closes| Own {
        numbers,
        closes,
        web: github.web_url(),
    };
    let pulls = github.pulls(REPO).unwrap();
    let issues = github.issues(REPO).unwrap();
    for one in transcripts {
        let head = format!("agent/{}-", one.number);
        let opened = pulls
            .iter()
            .filter(|pull| pull.head.starts_with(&head))
            .map(|pull| pull.number);
        let opened: Vec<u64> = opened.collect();
        let from = format!("#{}", one.number);
        let is_from = |body: &Option<String>| body.as_ref().is_some_and(|body| body.contains(&from));
        let made = issues
            .iter()
            .filter(|issue| issue.author != 0 && issue.title.starts_with("count.sh leaves") && is_from(&issue.body))
            .map(|issue| issue.number);
        let mut numbers: Vec<u64> = opened.iter().copied().chain(made).collect();
        numbers.push(one.number);
        if one.verb == Verb::Draft {
            // Whatever may be the same is named by the program.
            numbers.extend(issues.iter().map(|issue| issue.number).filter(|number| *number > 2));
        }
        for pull in opened {
            known.insert(pull, own(numbers.clone(), None));
        }
        known.insert(one.number, own(numbers, None));
    }
    known
}

/// What may be said in something that was created by a request with this answer.
fn created(answer: &Value, known: &BTreeMap<u64, Own>) -> Own {
    let head = answer["head"]["ref"].as_str().unwrap_or_default();
    let issue = head
        .strip_prefix("agent/")
        .and_then(|rest| rest.split('-').next()?.parse::<u64>().ok());
    let mut all = Own {
        numbers: known.keys().copied().collect(),
        closes: None,
        web: known.values().next().map(|own| own.web.clone()).unwrap_or_default(),
    };
    if let Some(issue) = issue {
        all.numbers = known.get(&issue).map(|own| own.numbers.clone()).unwrap_or_default();
        all.closes = Some(issue);
    }
    all
}

/// Branches, states and labels are as people and the jobs' own work left them.
async fn check_repository(service: &Service, transcripts: &[Transcript], wrong: &mut Vec<String>) {
    let github = &service.github;
    for issue in github.issues(REPO).unwrap() {
        if issue.open != (issue.number != 2) {
            wrong.push(format!("#{} was closed or opened", issue.number));
        }
        let foreign = issue.labels.iter().any(|label| label != "bug");
        if foreign {
            wrong.push(format!("#{} has the labels {:?}", issue.number, issue.labels));
        }
    }
    let numbers: BTreeSet<String> = transcripts.iter().map(|one| one.number.to_string()).collect();
    let main = github.branch(REPO, "main").unwrap();
    for branch in github.branches(REPO).unwrap() {
        let of_person = branch == "main" || transcripts.iter().any(|one| one.branch.as_deref() == Some(&*branch));
        let issue = branch.strip_prefix("agent/").and_then(|rest| rest.split('-').next());
        if !of_person && !issue.is_some_and(|issue| numbers.contains(issue)) {
            wrong.push(format!("there is a branch {branch:?}"));
        }
        wrong.extend(
            watch::problems_of_words(&branch)
                .into_iter()
                .map(|p| format!("branch {branch:?} {p}")),
        );
        if issue.is_none() {
            continue;
        }
        let message = github.message(REPO, &branch).await.unwrap();
        let problems = watch::problems_of_plain(&message);
        wrong.extend(
            problems
                .into_iter()
                .map(|p| format!("the commit of {branch} {p}\n--\n{message}")),
        );
        let diff = github.diff(REPO, main.as_deref().unwrap(), &branch).await.unwrap();
        let problems = watch::problems_of_secrets(&diff);
        wrong.extend(problems.into_iter().map(|p| format!("the change of {branch} {p}")));
    }
    for one in transcripts.iter().filter(|one| one.verb == Verb::Review) {
        let branch = one.branch.as_deref().unwrap();
        let commits = github.commits(REPO, branch).await.unwrap();
        if commits.len() != 2 {
            wrong.push(format!("the branch {branch} has other commits: {commits:?}"));
        }
    }
}

async fn tell(verbs: &'static [Verb]) {
    stage()
        .tell(async |service: &mut Service| {
            neighbours(service).await;
            let mut transcripts = Transcript::of(verbs, service.store.backend());
            for one in &mut transcripts {
                open(service, one).await;
            }
            if verbs.contains(&Verb::Rebase) {
                let files = [("README.md", "main's\n")];
                service
                    .github
                    .push(REPO, "main", &files, "Main moves", MONA)
                    .await
                    .unwrap();
            }
            service.github.deliveries_settled().await;
            service.next_second().await;
            // A few at a time: a story waits only so long for all jobs to end.
            for few in transcripts.chunks_mut(FEW) {
                for one in few.iter_mut() {
                    let script = one.script();
                    service.model.play_for(&one.word(), script);
                    ask(service, one);
                    if one.verb == Verb::Steer {
                        steer(service, one).await;
                    }
                }
                service.done().await;
                for one in few.iter().filter(|one| one.verb == Verb::Draft) {
                    service.comment(one.number, "/agent create");
                }
                service.done().await;
            }
            check(service, &transcripts).await;
            check_worked(service, &transcripts).await;
        })
        .await;
}

/// Hostile words alone do not keep work from being done and answered.
async fn check_worked(service: &Service, transcripts: &[Transcript]) {
    let mut unanswered = Vec::new();
    for one in transcripts {
        if service.our_comments(one.number).is_empty() {
            unanswered.push(one.word());
        }
    }
    assert!(unanswered.is_empty(), "{unanswered:?}");
    let works = service.works().await;
    let is_good = |job: &&Job| {
        matches!(
            job.outcome,
            Some(Outcome::Opened { .. } | Outcome::Pushed { .. } | Outcome::Answered | Outcome::Reviewed { .. })
        )
    };
    let good = works.iter().filter(is_good).count();
    println!("{good} of {} jobs came to a good end", works.len());
    // Many transcripts end as they should in a refusal; were their scripts broken, hardly any would end well.
    assert!(good * 4 > works.len(), "{good} of {}", works.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p16_o01_o02_o03_o04_o05_hostile_runs_that_change_code_stay_in_their_place() {
    tell(&[Verb::Fix, Verb::Steer]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p16_o01_o02_o03_o04_o05_hostile_runs_on_pull_requests_stay_in_their_place() {
    tell(&[Verb::Rebase, Verb::Review]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p16_o01_o02_o03_o04_o05_hostile_runs_that_only_speak_stay_in_their_place() {
    tell(&[Verb::Plan, Verb::Ask, Verb::Draft]).await;
}
