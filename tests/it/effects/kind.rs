//! Kinds of effects, each with what it needs in the world, its rows, the call that writes it, and how
//! many of it there are. Never knows a fault.

use forgehand::clock::Clock;
use forgehand::demo::double::{InlineComment, NewPullByPerson, Pull};
use forgehand::effect::{EffectBody, ReactionTarget};
use forgehand::ids::{BranchName, CommentId, CommitSha, DraftId, IssueNumber, JobId};
use forgehand::job::Outcome;
use forgehand::phrase::thread::Said;

use super::World;
use crate::service::{MONA, REPO};

/// A kind of effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Reaction,
    StatusComment,
    Comment,
    FinalStatus,
    OpenPull,
    MarkReady,
    RequestReviewer,
    SubmitReview,
    ReplyThread,
    ResolveThread,
    RequestReview,
    BeginCheck,
    SettleCheck,
    CreateIssue,
    TellCreated,
    RemoveLabel,
}

impl Kind {
    pub const ALL: [Kind; 16] = [
        Kind::Reaction,
        Kind::StatusComment,
        Kind::Comment,
        Kind::FinalStatus,
        Kind::OpenPull,
        Kind::MarkReady,
        Kind::RequestReviewer,
        Kind::SubmitReview,
        Kind::ReplyThread,
        Kind::ResolveThread,
        Kind::RequestReview,
        Kind::BeginCheck,
        Kind::SettleCheck,
        Kind::CreateIssue,
        Kind::TellCreated,
        Kind::RemoveLabel,
    ];

    /// The call that writes it, as a pattern of the double.
    pub fn write(self) -> &'static str {
        match self {
            Kind::Reaction => "POST /repos/*/*/issues/*/reactions",
            Kind::StatusComment | Kind::Comment | Kind::TellCreated => "POST /repos/*/*/issues/*/comments",
            Kind::FinalStatus => "PATCH /repos/*/*/issues/comments/*",
            Kind::OpenPull => "POST /repos/*/*/pulls",
            Kind::MarkReady | Kind::ResolveThread => "POST /graphql",
            Kind::RequestReviewer | Kind::RequestReview => "POST /repos/*/*/pulls/*/requested_reviewers",
            Kind::SubmitReview => "POST /repos/*/*/pulls/*/reviews",
            Kind::ReplyThread => "POST /repos/*/*/pulls/*/comments/*/replies",
            Kind::BeginCheck => "POST /repos/*/*/check-runs",
            Kind::SettleCheck => "PATCH /repos/*/*/check-runs/*",
            Kind::CreateIssue => "POST /repos/*/*/issues",
            Kind::RemoveLabel => "DELETE /repos/*/*/issues/*/labels/*",
        }
    }

    /// The list in which it is looked up, where it is.
    pub fn list(self) -> Option<&'static str> {
        Some(match self {
            Kind::StatusComment | Kind::Comment | Kind::TellCreated => "GET /repos/*/*/issues/*/comments",
            Kind::OpenPull => "GET /repos/*/*/pulls",
            Kind::SubmitReview => "GET /repos/*/*/pulls/*/reviews",
            Kind::ReplyThread => "GET /repos/*/*/pulls/*/comments",
            Kind::BeginCheck => "GET /repos/*/*/commits/*/check-runs",
            Kind::CreateIssue => "GET /repos/*/*/issues",
            Kind::Reaction
            | Kind::FinalStatus
            | Kind::MarkReady
            | Kind::RequestReviewer
            | Kind::ResolveThread
            | Kind::RequestReview
            | Kind::SettleCheck
            | Kind::RemoveLabel => return None,
        })
    }
}

/// What was there before an effect of a kind.
pub struct Ground {
    pub kind: Kind,
    pub issue: u64,
    pub outcome: Outcome,
    branch: Option<(BranchName, CommitSha)>,
    pull: u64,
    head: CommitSha,
    root: u64,
    main: CommitSha,
    draft: DraftId,
}

/// A pull request that all reviews of a story are about.
pub struct Reviewed {
    pub pull: u64,
    head: CommitSha,
}

impl Reviewed {
    pub async fn new(world: &World<'_>) -> Self {
        Self::of(world, 0).await
    }

    /// For a story without reviews.
    pub fn none(world: &World<'_>) -> Self {
        let head = world.github.branch(REPO, "main").unwrap().unwrap();
        Self {
            pull: 0,
            head: head.parse().unwrap(),
        }
    }

    /// One that is told apart from others of the same world; only what reviews need is made.
    pub async fn of(world: &World<'_>, nth: usize) -> Self {
        let branch = format!("by-mona-{nth}");
        let files = [("a.txt", "one\ntwo\nthree\n")];
        world.github.push(REPO, &branch, &files, "Mine", MONA).await.unwrap();
        let new = NewPullByPerson {
            head_repo: REPO,
            head: &branch,
            base: "main",
            title: "By mona",
            body: "",
            by: MONA,
        };
        let pull = world.github.open_pull(REPO, new).await.unwrap();
        let head = world.github.branch(REPO, &branch).unwrap().unwrap();
        Self {
            pull,
            head: head.parse().unwrap(),
        }
    }
}

impl Ground {
    /// Lays it; `nth` tells it apart from others of the story.
    pub async fn lay(world: &World<'_>, reviewed: &Reviewed, kind: Kind, nth: usize) -> Self {
        let sha = |branch: &str| -> CommitSha { world.github.branch(REPO, branch).unwrap().unwrap().parse().unwrap() };
        let mut branch = None;
        if matches!(kind, Kind::OpenPull | Kind::MarkReady | Kind::RequestReviewer) {
            let name = format!("agent/{nth}-title");
            let (file, text) = (format!("{nth}.txt"), format!("{nth}\n"));
            let files = [(file.as_str(), text.as_str())];
            world.github.push(REPO, &name, &files, "Ours", MONA).await.unwrap();
            let parsed: BranchName = name.parse().unwrap();
            branch = Some((parsed, sha(&name)));
        }
        let mut root = 0;
        if matches!(kind, Kind::ReplyThread | Kind::ResolveThread | Kind::RequestReview) {
            let comment = InlineComment {
                path: "a.txt".to_owned(),
                line: 2,
                body: format!("Why? ({nth})"),
            };
            let review = ("COMMENTED", "A question.");
            world
                .github
                .submit_review(REPO, reviewed.pull, review, &[comment], MONA)
                .unwrap();
            let comments = world.github.review_comments(REPO, reviewed.pull).unwrap();
            root = comments.iter().map(|comment| comment.id).max().unwrap();
        }
        Self {
            kind,
            issue: world.issue(),
            outcome: match &branch {
                Some((branch, sha)) => Outcome::Pushed {
                    branch: branch.clone(),
                    sha: sha.clone(),
                },
                None => Outcome::Answered,
            },
            branch,
            pull: reviewed.pull,
            head: reviewed.head.clone(),
            root,
            main: sha("main"),
            draft: DraftId::new(Clock::System.now()),
        }
    }

    /// Its rows: those that it stands on, and itself as the last one.
    pub fn rows(&self) -> Vec<(i64, EffectBody)> {
        let number = IssueNumber(self.issue);
        let pull = IssueNumber(self.pull);
        let status = || {
            let body = "### ⏳ Starting".to_owned();
            (2, EffectBody::StatusComment { number, body })
        };
        let reply = || {
            let body = EffectBody::ReplyThread {
                number: pull,
                root: CommentId(self.root),
                said: Said::Disputed,
                branch: None,
                reply: "Because.".to_owned(),
            };
            (500, body)
        };
        let begin = || (3, EffectBody::BeginCheck { sha: self.main.clone() });
        match self.kind {
            Kind::Reaction => {
                let target = ReactionTarget::Issue { number };
                let content = "eyes".to_owned();
                vec![(1, EffectBody::Reaction { target, content })]
            }
            Kind::StatusComment => vec![status()],
            Kind::Comment => vec![(12, said(number))],
            Kind::FinalStatus => {
                let (details, drafts) = (String::new(), String::new());
                vec![status(), (980, EffectBody::FinalStatus { details, drafts })]
            }
            Kind::OpenPull => self.opened(),
            Kind::MarkReady => [self.opened(), vec![(14, EffectBody::MarkReady)]].concat(),
            Kind::RequestReviewer => {
                let login = "hubot".to_owned();
                [self.opened(), vec![(15, EffectBody::RequestReviewer { login })]].concat()
            }
            Kind::SubmitReview => {
                let review = EffectBody::SubmitReview {
                    number: pull,
                    commit: self.head.clone(),
                    body: "Looks right.".to_owned(),
                    comments: Vec::new(),
                };
                vec![(13, review)]
            }
            Kind::ReplyThread => vec![reply()],
            Kind::ResolveThread => {
                let resolve = EffectBody::ResolveThread {
                    number: pull,
                    root: CommentId(self.root),
                    seen: CommentId(self.root),
                };
                vec![reply(), (501, resolve)]
            }
            Kind::RequestReview => {
                let logins = vec!["hubot".to_owned()];
                vec![reply(), (900, EffectBody::RequestReview { number: pull, logins })]
            }
            Kind::BeginCheck => vec![begin()],
            Kind::SettleCheck => vec![begin(), (982, EffectBody::SettleCheck)],
            Kind::CreateIssue => {
                let create = EffectBody::CreateIssue {
                    draft: self.draft.clone(),
                    part: 0,
                    offered_at: Clock::System.now(),
                    title: "A bug".to_owned(),
                    body: format!("Found by {}.", self.draft),
                    labels: Vec::new(),
                };
                vec![(30, create)]
            }
            Kind::TellCreated => vec![(80, EffectBody::TellCreated { number })],
            Kind::RemoveLabel => {
                let label = "agent".to_owned();
                vec![(981, EffectBody::RemoveLabel { number, label })]
            }
        }
    }

    fn opened(&self) -> Vec<(i64, EffectBody)> {
        let (branch, sha) = self.branch.clone().expect("a branch was pushed");
        let push = EffectBody::Push {
            branch: branch.clone(),
            to: None,
            expect: None,
            parent: sha.clone(),
            merged: Vec::new(),
            sha,
            message: "Ours".to_owned(),
        };
        let open = EffectBody::OpenPull {
            branch,
            base: "main".parse().unwrap(),
            title: "Ours".to_owned(),
            body: "Fixes it".to_owned(),
            draft: true,
        };
        vec![(10, push), (11, open)]
    }

    /// What rows of the database it stands on, as statements.
    pub fn statements(&self, job: &JobId) -> Option<String> {
        (self.kind == Kind::CreateIssue).then(|| {
            format!(
                "INSERT INTO drafts (id, job_id, repo_id, repo, subject, number, kind, hash, proposal, issue, is_shown, \
                 state, offered_at, confirmed_job) VALUES ('{draft}', '{job}', \
                 (SELECT repo_id FROM jobs WHERE id = '{job}'), '{REPO}', 'issue:{issue}', 1, \
                 'bug', '', '{{}}', '{{}}', TRUE, 'confirmed', '{at}', '{job}')",
                draft = self.draft,
                issue = self.issue,
                at = Clock::System.now().to_rfc3339(),
            )
        })
    }

    /// How many of it people see.
    pub fn count(&self, world: &World<'_>, job: &JobId) -> usize {
        let github = &world.github;
        let ours = |body: &str| body.contains(job.as_str());
        let comments = || github.comments(REPO, self.issue).unwrap();
        match self.kind {
            Kind::Reaction => github.issue(REPO, self.issue).unwrap().reactions.len(),
            Kind::StatusComment | Kind::Comment | Kind::TellCreated => {
                comments().iter().filter(|comment| ours(&comment.body)).count()
            }
            Kind::FinalStatus => comments()
                .iter()
                .filter(|comment| ours(&comment.body) && !comment.body.contains("Starting"))
                .count(),
            Kind::OpenPull => self.pulls(world).len(),
            Kind::MarkReady => self.pulls(world).iter().filter(|pull| !pull.draft).count(),
            Kind::RequestReviewer => self.pulls(world).iter().map(|pull| pull.requested.len()).sum(),
            Kind::SubmitReview => {
                let reviews = github.reviews(REPO, self.pull).unwrap();
                reviews.iter().filter(|review| ours(&review.body)).count()
            }
            Kind::ReplyThread => {
                let comments = github.review_comments(REPO, self.pull).unwrap();
                comments.iter().filter(|comment| ours(&comment.body)).count()
            }
            Kind::ResolveThread => {
                let threads = github.threads(REPO, self.pull).unwrap();
                let ours = threads.iter().filter(|thread| thread.root.id == self.root);
                ours.filter(|thread| thread.resolved_by.is_some()).count()
            }
            Kind::RequestReview => github.requested_reviewers(REPO, self.pull).unwrap().len(),
            Kind::BeginCheck => self.checks(world, job).len(),
            Kind::SettleCheck => {
                let checks = self.checks(world, job);
                checks.iter().filter(|status| *status == "completed").count()
            }
            Kind::CreateIssue => {
                let by_us = format!("Found by {}.", self.draft);
                let issues = (1..).map_while(|number| github.issue(REPO, number).ok());
                let ours = issues.filter(|issue| issue.body.as_deref().unwrap_or_default().contains(&by_us));
                ours.filter(|issue| issue.open).count()
            }
            Kind::RemoveLabel => usize::from(github.issue(REPO, self.issue).unwrap().labels.is_empty()),
        }
    }

    fn pulls(&self, world: &World<'_>) -> Vec<Pull> {
        let pulls = world.github.pulls(REPO).unwrap().into_iter();
        let branch = self.branch.as_ref().map(|(branch, _)| branch.as_str());
        pulls.filter(|pull| Some(pull.head.as_str()) == branch).collect()
    }

    fn checks(&self, world: &World<'_>, job: &JobId) -> Vec<String> {
        let runs = world.github.check_runs(REPO, self.main.as_str()).unwrap();
        let ours = runs.iter().filter(|run| run.external_id == job.as_str());
        ours.map(|run| run.status.clone()).collect()
    }
}

/// A comment that is said once.
pub fn said(number: IssueNumber) -> EffectBody {
    EffectBody::Comment {
        number,
        body: "Said once.".to_owned(),
    }
}
