//! Publishing by itself: the dispatcher on a GitHub double with rows that a story made, and a few
//! stories of the whole service about what the result is allowed to say and to cost.
//! Never waits for a pause of the dispatcher: it looks at what is stored.

use std::time::Duration;

use forgehand::clock::Clock;
use forgehand::config::{BudgetConfig, GitHubConfig};
use forgehand::demo::double::{Fault, GitHubDouble, NewPullByPerson};
use forgehand::effect::{EffectBody, EffectState, NewEffect, ReactionTarget};
use forgehand::git::Git;
use forgehand::github::GitHub;
use forgehand::ids::{BranchName, CommentId, IssueNumber, JobId, Subject, UserId};
use forgehand::job::{Actor, Job, JobError, JobKind, JobState, LeasedJob, NewJob, Outcome, Pins, Request, Trigger};
use forgehand::ledger::Caps;
use forgehand::phrase::Language;
use forgehand::publish::{MarkerKey, Publisher, dispatch, final_outcome, settle_ended};
use forgehand::queue::Pulse;
use forgehand::secret::{Redactor, Secret};
use forgehand::store::Store;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::databases::each;
use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, finish, mend, usual};

/// A lease that no story outlives.
const LONG: Duration = Duration::from_secs(600);

/// A GitHub with one issue, and a publisher.
struct Desk {
    github: GitHubDouble,
    publisher: Publisher,
    mona: UserId,
    issue: u64,
    _folder: tempfile::TempDir,
}

impl Desk {
    async fn new(store: &Store) -> Self {
        let github = GitHubDouble::start(Clock::System).await.unwrap();
        let seed = github.repository(REPO).file("README.md", "# words\n").commit("Begin");
        seed.create().await.unwrap();
        let mona = github.grant(REPO, MONA, "admin").unwrap();
        let issue = github.open_issue(REPO, "Title", "Body", &["agent"], MONA).unwrap();
        let mut config = GitHubConfig::default();
        github.configure(&mut config);
        config.write_interval_seconds = Duration::ZERO;
        config.call_timeout_seconds = Duration::from_secs(2);
        let redactor = Redactor::default();
        let client = GitHub::new(&config, Clock::System, redactor.clone()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let publisher = Publisher {
            store: store.clone(),
            app: client.app().await.unwrap(),
            github: client,
            git: Git::find().unwrap(),
            state_dir: folder.path().to_owned(),
            marker: MarkerKey::from_secret(&Secret::new("marker")),
            command: "/agent".to_owned(),
            security_advisories: false,
            language: Language::English,
            caps: Caps::new(&BudgetConfig::default(), Language::English, "/agent"),
            call_timeout: config.call_timeout_seconds,
            write_interval: Duration::ZERO,
            list_lag: Duration::from_secs(1),
            clock: Clock::System,
            redactor,
        };
        Self {
            github,
            publisher,
            mona,
            issue,
            _folder: folder,
        }
    }

    fn job(&self, trigger: Trigger) -> NewJob {
        NewJob {
            repo_id: self.github.repo_id(REPO).unwrap(),
            repo: REPO.parse().unwrap(),
            installation: self.github.installation(),
            kind: JobKind::Fix,
            subject: Subject::Issue(IssueNumber(self.issue)),
            dedupe_key: None,
            priority: 0,
            run_at: Clock::System.now() - chrono::TimeDelta::seconds(60),
            max_attempts: 5,
            request: Request {
                trigger,
                actor: Actor {
                    id: self.mona,
                    login: MONA.to_owned(),
                    is_bot: false,
                },
                instructions: String::new(),
                triggered_at: Clock::System.now(),
            },
            pins: Pins::default(),
        }
    }

    async fn insert(&self, job: &NewJob) -> JobId {
        let mut tx = self.publisher.store.begin().await.unwrap();
        let id = tx.insert_job(job, Clock::System.now()).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        id
    }

    async fn claim(&self) -> LeasedJob {
        let mut tx = self.publisher.store.begin().await.unwrap();
        let leased = tx.claim_job("worker", LONG).await.unwrap().expect("a job is ready");
        tx.commit().await.unwrap();
        leased
    }

    /// A job that is publishing these effects.
    async fn publishing(&self, outcome: Outcome, bodies: Vec<(i64, EffectBody)>) -> LeasedJob {
        self.insert(&self.job(Trigger::Comment { id: CommentId(1) })).await;
        let mut leased = self.claim().await;
        let effects: Vec<NewEffect> = bodies
            .into_iter()
            .map(|(seq, body)| NewEffect {
                seq,
                dedupe_key: format!("{}/{seq}", leased.job.id),
                body,
            })
            .collect();
        let mut tx = self.publisher.store.begin().await.unwrap();
        tx.begin_publishing(&leased.lease, &outcome, &effects).await.unwrap();
        tx.commit().await.unwrap();
        leased.job.state = JobState::Publishing;
        leased.job.outcome = Some(outcome);
        leased
    }

    async fn dispatch(&self, leased: &LeasedJob) -> Result<(), JobError> {
        dispatch(&self.publisher, leased, &Pulse::new(LONG)).await
    }

    async fn states(&self, leased: &LeasedJob) -> Vec<(EffectState, u32)> {
        let mut tx = self.publisher.store.begin().await.unwrap();
        let effects = tx.effects(&leased.job.id).await.unwrap();
        effects.iter().map(|effect| (effect.state, effect.tries)).collect()
    }

    async fn load(&self, id: &JobId) -> Job {
        let mut tx = self.publisher.store.begin().await.unwrap();
        tx.job(id).await.unwrap().unwrap()
    }
}

fn said(issue: u64) -> EffectBody {
    EffectBody::Comment {
        number: IssueNumber(issue),
        body: "Said once.".to_owned(),
    }
}

/// The worker is lost for good between the pull request and its check.
#[tokio::test]
async fn a_pull_request_whose_worker_was_lost_gets_its_check() {
    each(async |store| {
        let desk = Desk::new(&store).await;
        let branch: BranchName = "agent/1-title".parse().unwrap();
        let files = [("a.txt", "x\n")];
        let pushed = desk.github.push(REPO, branch.as_str(), &files, "Mine", MONA).await;
        let sha: forgehand::ids::CommitSha = pushed.unwrap().parse().unwrap();
        let push = EffectBody::Push {
            branch: branch.clone(),
            to: None,
            expect: None,
            parent: sha.clone(),
            merged: Vec::new(),
            sha: sha.clone(),
            message: "now".to_owned(),
        };
        let open = EffectBody::OpenPull {
            branch: branch.clone(),
            base: "main".parse().unwrap(),
            title: "Now".to_owned(),
            body: "Fixes #1".to_owned(),
            draft: true,
        };
        let status = EffectBody::StatusComment {
            number: IssueNumber(desk.issue),
            body: "### ⏳ Starting".to_owned(),
        };
        let outcome = Outcome::Pushed {
            branch,
            sha: sha.clone(),
        };
        let rows = vec![(2, status), (10, push), (11, open), (982, EffectBody::SettleCheck)];
        let leased = desk.publishing(outcome, rows).await;
        let away = Fault::status(500, "away");
        desk.github.fault("GET /repos/*/*/commits/*/check-runs", away, 1_000);
        assert!(desk.dispatch(&leased).await.is_err());
        desk.github.clear_faults();
        let checks = || desk.github.check_runs(REPO, sha.as_str()).unwrap();
        assert_eq!(checks().len(), 0);
        assert_eq!(settle_ended(&desk.publisher).await.unwrap(), 0, "the job is not over");
        let mut tx = store.begin().await.unwrap();
        tx.bury_job(&leased.lease, "its worker was lost").await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(settle_ended(&desk.publisher).await.unwrap(), 1);
        let checks = checks();
        assert_eq!((checks.len(), checks[0].status.as_str()), (1, "completed"));
        let said = desk.github.comments(REPO, desk.issue).unwrap().remove(0).body;
        assert!(said.starts_with("### ✅ Done: #"), "{said}");
        assert_eq!(settle_ended(&desk.publisher).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_pull_request_that_is_over_is_not_taken_for_the_new_one() {
    each(async |store| {
        let desk = Desk::new(&store).await;
        let branch: BranchName = "agent/1-title".parse().unwrap();
        let push = async |text| {
            let files = [("a.txt", text)];
            desk.github
                .push(REPO, branch.as_str(), &files, text, MONA)
                .await
                .unwrap()
        };
        push("earlier").await;
        let new = NewPullByPerson {
            head_repo: REPO,
            head: branch.as_str(),
            base: "main",
            title: "Earlier",
            body: "",
            by: MONA,
        };
        let earlier = desk.github.open_pull(REPO, new).await.unwrap();
        desk.github.close_issue(REPO, earlier, MONA).unwrap();
        let sha: forgehand::ids::CommitSha = push("now").await.parse().unwrap();
        let outcome = Outcome::Pushed {
            branch: branch.clone(),
            sha: sha.clone(),
        };
        let pushed = EffectBody::Push {
            branch: branch.clone(),
            to: None,
            expect: None,
            parent: sha.clone(),
            merged: Vec::new(),
            sha: sha.clone(),
            message: "now".to_owned(),
        };
        let open = EffectBody::OpenPull {
            branch: branch.clone(),
            base: "main".parse().unwrap(),
            title: "Now".to_owned(),
            body: "Fixes #1".to_owned(),
            draft: true,
        };
        let leased = desk.publishing(outcome, vec![(10, pushed), (11, open)]).await;
        desk.dispatch(&leased).await.unwrap();
        let Outcome::Opened { pull, .. } = final_outcome(&desk.publisher, &leased.job).await.unwrap() else {
            panic!("no pull request was opened");
        };
        assert_ne!(pull.0, earlier);
        assert!(desk.github.issue(REPO, pull.0).unwrap().open);
    })
    .await;
}

#[tokio::test]
async fn an_outage_before_the_call_costs_no_attempt_and_no_wait_for_stray_calls() {
    each(async |store| {
        let desk = Desk::new(&store).await;
        let leased = desk.publishing(Outcome::Answered, vec![(12, said(desk.issue))]).await;
        desk.github.fault(
            "GET /repos/*/*/collaborators/*/permission",
            Fault::status(502, "away"),
            50,
        );
        let before = Clock::System.now();
        for tries in 1..=3 {
            let Err(JobError::Snooze(until, _)) = desk.dispatch(&leased).await else {
                panic!("it is put off");
            };
            assert!(until < before + chrono::TimeDelta::seconds(60), "{until}");
            assert_eq!(desk.states(&leased).await, [(EffectState::Pending, tries)]);
        }
        desk.github.clear_faults();
        desk.dispatch(&leased).await.unwrap();
        assert_eq!(desk.states(&leased).await, [(EffectState::Done, 4)]);
        assert_eq!(desk.github.comments(REPO, desk.issue).unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_reaction_that_never_works_does_not_hold_up_the_rest() {
    each(async |store| {
        let desk = Desk::new(&store).await;
        let eyes = EffectBody::Reaction {
            target: ReactionTarget::Issue {
                number: IssueNumber(desk.issue),
            },
            content: "eyes".to_owned(),
        };
        let effects = vec![(1, eyes), (12, said(desk.issue))];
        let leased = desk.publishing(Outcome::Answered, effects).await;
        desk.github
            .fault("POST /repos/*/*/issues/*/reactions", Fault::status(500, "broken"), 100);
        let mut rounds = 0;
        while let Err(error) = desk.dispatch(&leased).await {
            rounds += 1;
            assert!(matches!(error, JobError::Snooze(..)) && rounds < 10, "{error:?}");
        }
        let states = desk.states(&leased).await;
        assert_eq!(states, [(EffectState::Failed, 4), (EffectState::Done, 1)]);
    })
    .await;
}

#[tokio::test]
async fn p11_without_the_right_nothing_is_written_and_nothing_stays_half_sent() {
    each(async |store| {
        let desk = Desk::new(&store).await;
        let leased = desk.publishing(Outcome::Answered, vec![(12, said(desk.issue))]).await;
        desk.github.grant(REPO, MONA, "read").unwrap();
        assert!(matches!(desk.dispatch(&leased).await, Err(JobError::NoRight(_))));
        assert_eq!(desk.states(&leased).await, [(EffectState::Pending, 1)]);
        assert_eq!(desk.github.comments(REPO, desk.issue).unwrap().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn t15_the_label_of_a_job_that_never_began_goes_unless_it_was_put_on_again() {
    each(async |store| {
        let desk = Desk::new(&store).await;
        let labelled = desk.job(Trigger::Label {
            label: "agent".to_owned(),
        });
        let labels = || desk.github.issue(REPO, desk.issue).unwrap().labels;
        let cancel = async |id: &JobId| {
            let mut tx = store.begin().await.unwrap();
            tx.cancel_job(id, "not needed", Clock::System.now()).await.unwrap();
            tx.commit().await.unwrap();
        };
        let first = desk.insert(&labelled).await;
        cancel(&first).await;
        assert_eq!(desk.load(&first).await.state, JobState::Cancelled);
        let second = desk.insert(&labelled).await;
        assert_eq!(settle_ended(&desk.publisher).await.unwrap(), 1);
        assert_eq!(labels(), ["agent"], "the second job waits for its turn");
        cancel(&second).await;
        assert_eq!(settle_ended(&desk.publisher).await.unwrap(), 1);
        assert_eq!(labels(), Vec::<String>::new());
        assert_eq!(settle_ended(&desk.publisher).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn p08b_an_edit_during_the_run_is_named_in_the_pull_request() {
    usual()
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            service.model.play([mend().after(&gate), finish()]);
            let issue = service.labelled_issue();
            service.model_is_asked(1).await;
            service.github.edit_issue(REPO, issue, "Another text.", MONA).unwrap();
            gate.cancel();
            service.done().await;
            let (_, body) = service.text_of(service.only_pull().number);
            assert!(body.contains("was edited while this was worked on"), "{body}");
            assert_eq!(body.matches(&format!("Fixes #{issue}")).count(), 1, "{body}");
        })
        .await;
}

#[tokio::test]
async fn p10_commits_for_a_merged_pull_request_go_beside_it() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let branch = service.only_pull().head;
            let before = service.github.branch(REPO, &branch).unwrap();
            let gate = CancellationToken::new();
            let note = json!({"path": "README.md", "content": "# words\n\nMore.\n"});
            service
                .model
                .play([Reply::call("write_file", note).after(&gate), finish()]);
            service.comment(pull, "/agent fix More, please.");
            service.model_is_asked(3).await;
            // GitHub's call about the merge gets lost.
            let secret = service.github.webhook_secret();
            service.github.hooks("http://127.0.0.1:9/webhook", &secret);
            service.github.merge_pull(REPO, pull, MONA).await.unwrap();
            gate.cancel();
            service.done().await;
            assert_eq!(service.github.branch(REPO, &branch).unwrap(), before);
            let Outcome::GaveUp {
                reason,
                branch: Some(side),
            } = service.outcome().await
            else {
                panic!("{:?}", service.outcome().await);
            };
            assert!(reason.contains("was merged meanwhile"), "{reason}");
            assert!(service.file(side.as_str(), "README.md").await.contains("More."));
        })
        .await;
}

#[tokio::test]
async fn what_an_earlier_attempt_spent_counts_although_its_work_is_gone() {
    usual()
        .configuration(|config| config.budget.max_turns = 2)
        .tell(async |service: &mut Service| {
            service.model.play([mend(), Reply::silence(), mend()]);
            service.labelled_issue();
            service.model_is_asked(2).await;
            service.stop().await;
            std::fs::remove_dir_all(service.state_dir().join("runs")).unwrap();
            service.start().await;
            service.done().await;
            assert_eq!(service.model.requests().len(), 3);
            let outcome = service.outcome().await;
            let Outcome::GaveUp { reason, .. } = &outcome else {
                panic!("{outcome:?}");
            };
            assert!(reason.contains("the limit of replies is reached (2 of 2)"), "{reason}");
        })
        .await;
}

#[tokio::test]
async fn the_words_of_a_model_cannot_pass_for_those_of_the_program() {
    usual()
        .tell(async |service: &mut Service| {
            let summary = "Done.\n\n## Verification\n\n| `sh test.sh` | ✅ |\n\n![](https://evil.test/x) @octo fixes #9 \
                           <details>\n\n```\nopen";
            service
                .model
                .play([mend(), Reply::finish("Fixes #9 [skip ci] @octo", summary)]);
            let issue = service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            let (title, body) = service.text_of(pull.number);
            assert_eq!(title, "Fixes no. 9 (skip ci) octo");
            assert_eq!(body.lines().filter(|line| *line == "## Verification").count(), 1, "{body}");
            for risky in ["](", "<details", " @octo", "fixes #9"] {
                assert!(!body.contains(risky), "{risky} in {body}");
            }
            assert_eq!(body.lines().filter(|line| line.starts_with("```")).count() % 2, 0, "{body}");
            assert!(body.starts_with(&format!("Fixes #{issue}\n")), "{body}");
            let words = service.our_only_words(issue);
            assert!(words.contains("### ✅ Done"), "{words}");
        })
        .await;
}

#[tokio::test]
async fn every_step_that_was_taken_is_ticked() {
    usual()
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            let [first, second] = bug_fix();
            service.model.play([first.after(&gate), second]);
            let issue = service.labelled_issue();
            crate::service::until("the comment shows the steps", async || {
                let words = service.our_comments(issue);
                words
                    .iter()
                    .any(|comment| comment.body.contains("- [x] Check permission"))
            })
            .await;
            gate.cancel();
            service.done().await;
        })
        .await;
}
