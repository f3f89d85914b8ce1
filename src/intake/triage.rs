//! Decides what a delivery means. Pure: the same delivery and rules give the same intents.
//! Never asks the database or GitHub, and never takes a label, a login or an association for
//! authority: it only sees to it that a person is behind every start; the job asks whether that
//! person may.

use chrono::{DateTime, Utc};

use super::command::Command;
use super::payload::{CommentFacts, Delivery, IssueFacts, Payload, PullFacts, Repo, ReviewFacts};
use crate::config::{GitHubConfig, QueueConfig};
use crate::ids::{AppId, CommitSha, InstallationId, RepoId, Subject};
use crate::job::{Actor, JobKind, NewJob, Pins, Request, Trigger};
use crate::phrase::Language;
use crate::phrase::reason::{self, Happened};

mod answer;
mod checks;
pub use answer::{RETRY_PUBLISH, STATUS_REPLY};

/// Control jobs (stop, answers) go before work: a person waits for them.
pub(super) const CONTROL_PRIORITY: i32 = 10;

/// What triage needs to know of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Label that starts work on an issue, matched without case.
    pub label: String,
    /// The repository's own one, which does so, too.
    pub own_label: Option<String>,
    /// Word that begins a command, matched without case.
    pub command: String,
    /// What the program's own words are written in.
    pub language: Language,
    /// Our App, once it is known.
    pub app_id: Option<AppId>,
    /// Our App's slug, once it is known; our account is `<slug>[bot]`.
    pub bot_slug: Option<String>,
    /// Other Apps whose commands are obeyed.
    pub allowed_apps: Vec<AppId>,
    /// Attempts that a new job gets.
    pub max_attempts: u32,
}

impl Rules {
    /// The rules of a configuration.
    pub fn new(github: &GitHubConfig, queue: &QueueConfig, bot_slug: Option<String>) -> Self {
        Self {
            label: github.label.clone(),
            own_label: None,
            command: github.command.clone(),
            language: github.language.into(),
            app_id: github.app_id.map(AppId),
            bot_slug,
            allowed_apps: github.allowed_apps.iter().copied().map(AppId).collect(),
            max_attempts: queue.max_attempts,
        }
    }
}

impl Rules {
    /// Whether a label is one that starts work.
    pub fn starts_work(&self, label: &str) -> bool {
        let same = |other: &String| other.to_lowercase() == label.to_lowercase();
        same(&self.label) || self.own_label.as_ref().is_some_and(same)
    }
}

/// What is to be made of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// Insert a job.
    Start(Box<NewJob>),
    /// Insert a job, unless a fix of the same subject is queued and not begun: then it will see
    /// this request too.
    Join(Box<NewJob>),
    /// Stop all work on a subject.
    CancelSubject {
        /// The repository.
        repo: RepoId,
        /// The issue or pull request.
        subject: Subject,
        /// Why, for people.
        reason: &'static str,
    },
    /// Stop work that this trigger started.
    CancelTrigger {
        /// The repository.
        repo: RepoId,
        /// The issue or pull request.
        subject: Subject,
        /// The trigger that is gone. A label is compared without case.
        trigger: Trigger,
        /// Why, for people.
        reason: &'static str,
    },
    /// A check failed on a commit. If it is the head of a pull request of ours, it may be repaired.
    ChecksFailed {
        /// The repository.
        repo: RepoId,
        /// The commit.
        sha: CommitSha,
        /// Attempts that a job gets.
        max_attempts: u32,
    },
    /// A person pushed to a pull request; whoever reads of the work that is going on there is told.
    HeadMoved {
        /// The repository.
        repo: RepoId,
        /// The pull request.
        subject: Subject,
        /// For people.
        note: String,
    },
    /// This installation speaks for this repository from now on.
    RepoHeld {
        /// The repository.
        repo: Repo,
        /// The installation.
        installation: InstallationId,
    },
    /// The repository moved to another owner: as `RepoHeld`, and work asked for before ends.
    RepoMoved {
        /// The repository.
        repo: Repo,
        /// The installation.
        installation: InstallationId,
        /// Why, for people.
        reason: &'static str,
    },
    /// The repository has another name.
    RepoRenamed(Repo),
    /// This installation speaks for this repository no longer.
    RepoGone {
        /// The repository.
        repo: Repo,
        /// The installation.
        installation: InstallationId,
        /// Why, for people.
        reason: &'static str,
    },
    /// A suspended installation works again.
    InstallationResumed(InstallationId),
    /// The installation was removed or suspended.
    InstallationEnded {
        /// The installation.
        installation: InstallationId,
        /// Why, for people.
        reason: &'static str,
    },
    /// Nothing.
    Ignore(&'static str),
}

/// What a delivery means.
pub fn triage(delivery: &Delivery, rules: &Rules) -> Vec<Intent> {
    let Some(installation) = delivery.installation else {
        return vec![Intent::Ignore("not sent to an installation of the App")];
    };
    match (&delivery.payload, delivery.repo.clone()) {
        (Payload::Installation { repos }, _) => on_installation(rules.language, &delivery.action, installation, repos),
        (Payload::InstallationRepos { added, removed }, _) => {
            on_installation_repos(rules.language, installation, added, removed)
        }
        (_, None) => vec![Intent::Ignore("no repository is named")],
        (payload, Some(repo)) => vec![
            Seen {
                delivery,
                rules,
                repo,
                installation,
            }
            .intent(payload),
        ],
    }
}

fn on_installation(language: Language, action: &str, installation: InstallationId, repos: &[Repo]) -> Vec<Intent> {
    let ended = |happened| {
        let reason = reason::happened(language, happened);
        let gone = repos.iter().map(move |repo| Intent::RepoGone {
            repo: repo.clone(),
            installation,
            reason,
        });
        std::iter::once(Intent::InstallationEnded { installation, reason })
            .chain(gone)
            .collect()
    };
    match action {
        "created" => repos
            .iter()
            .map(|repo| Intent::RepoHeld {
                repo: repo.clone(),
                installation,
            })
            .collect(),
        "deleted" => ended(Happened::Uninstalled),
        "suspend" => ended(Happened::Suspended),
        "unsuspend" => vec![Intent::InstallationResumed(installation)],
        _ => vec![Intent::Ignore("nothing is made of this action")],
    }
}

fn on_installation_repos(
    language: Language,
    installation: InstallationId,
    added: &[Repo],
    removed: &[Repo],
) -> Vec<Intent> {
    let reason = reason::happened(language, Happened::TakenOff);
    let held = added.iter().map(|repo| Intent::RepoHeld {
        repo: repo.clone(),
        installation,
    });
    let gone = removed.iter().map(|repo| Intent::RepoGone {
        repo: repo.clone(),
        installation,
        reason,
    });
    held.chain(gone).collect()
}

/// A delivery about a repository through an installation.
struct Seen<'a> {
    delivery: &'a Delivery,
    rules: &'a Rules,
    repo: Repo,
    installation: InstallationId,
}

/// Words by somebody on an issue or pull request.
struct Said<'a> {
    subject: Subject,
    state: &'a str,
    pins: Pins,
    trigger: Trigger,
    /// What several deliveries of one act have in common.
    act: Act,
    text: &'a str,
    app: Option<AppId>,
    at: Option<DateTime<Utc>>,
}

/// The act that words belong to: a submitted review arrives as many deliveries.
enum Act {
    Single(String),
    UnknownReview(String),
}

impl Seen<'_> {
    fn intent(&self, payload: &Payload) -> Intent {
        match payload {
            Payload::Issue { issue, label } => self.issue(issue, label.as_deref()),
            Payload::IssueComment { issue, comment } => self.issue_comment(issue, comment),
            Payload::Pull { pull } => self.pull(pull),
            Payload::Review { pull, review } => self.review(pull, review),
            Payload::ReviewComment { pull, comment } => self.review_comment(pull, comment),
            Payload::Repository => self.repository(),
            Payload::Check { check } => self.check(check),
            Payload::Ping | Payload::Other | Payload::Installation { .. } | Payload::InstallationRepos { .. } => {
                Intent::Ignore("nothing is made of this event")
            }
        }
    }

    fn issue(&self, issue: &IssueFacts, label: Option<&str>) -> Intent {
        let subject = Subject::Issue(issue.number);
        let ours = label.filter(|label| self.rules.starts_work(label));
        match (self.delivery.action.as_str(), ours) {
            ("labeled" | "unlabeled", _) if issue.is_pull() => Intent::Ignore("labels on pull requests mean nothing"),
            ("labeled" | "unlabeled", None) => Intent::Ignore("another label"),
            ("labeled", Some(label)) => self.labelled(issue, label),
            ("unlabeled", Some(_)) if self.is_our_own_act() => Intent::Ignore("we removed the label ourselves"),
            ("unlabeled", Some(label)) => Intent::CancelTrigger {
                repo: self.repo.id,
                subject,
                trigger: Trigger::Label {
                    label: label.to_owned(),
                },
                reason: self.happened(Happened::Unlabelled),
            },
            ("closed", _) => self.cancel(subject, Happened::IssueClosed),
            ("deleted", _) => self.cancel(subject, Happened::IssueDeleted),
            ("transferred", _) => self.cancel(subject, Happened::IssueMoved),
            _ => Intent::Ignore("nothing is made of this action"),
        }
    }

    fn labelled(&self, issue: &IssueFacts, label: &str) -> Intent {
        let actor = match self.person(None) {
            Ok(actor) => actor,
            Err(reason) => return Intent::Ignore(reason),
        };
        let Some(triggered_at) = issue.updated_at else {
            return Intent::Ignore("the time of the trigger is not known");
        };
        let subject = Subject::Issue(issue.number);
        let trigger = Trigger::Label {
            label: label.to_owned(),
        };
        let request = |instructions| Request {
            trigger,
            actor,
            instructions,
            triggered_at,
        };
        if issue.state != "open" {
            let key = format!("reply:{}:{subject}", self.repo.id);
            return Intent::Start(self.job(
                JobKind::Reply,
                subject,
                key,
                request(crate::phrase::command::closed(self.rules.language, false)),
                issue_pins(issue),
            ));
        }
        let key = NewJob::issue_key(self.repo.id, &subject);
        Intent::Start(self.job(JobKind::Fix, subject, key, request(String::new()), issue_pins(issue)))
    }

    fn issue_comment(&self, issue: &IssueFacts, comment: &CommentFacts) -> Intent {
        let subject = if issue.is_pull() {
            Subject::Pull(issue.number)
        } else {
            Subject::Issue(issue.number)
        };
        let trigger = Trigger::Comment { id: comment.id };
        match self.delivery.action.as_str() {
            "created" => self.said(Said {
                subject,
                state: &issue.state,
                pins: issue_pins(issue),
                trigger,
                act: Act::Single(format!("comment-{}", comment.id)),
                text: &comment.body,
                app: comment.app(),
                at: comment.created_at,
            }),
            "deleted" => self.comment_deleted(subject, trigger),
            _ => Intent::Ignore("edited comments start nothing"),
        }
    }

    fn review_comment(&self, pull: &PullFacts, comment: &CommentFacts) -> Intent {
        let subject = Subject::Pull(pull.number);
        let trigger = Trigger::ReviewComment { id: comment.id };
        match self.delivery.action.as_str() {
            "created" => self.said(Said {
                subject,
                state: &pull.state,
                pins: pull_pins(pull),
                trigger,
                act: match comment.review_id {
                    Some(id) => Act::Single(format!("review-{id}")),
                    None => Act::UnknownReview(format!("review-comment-{}", comment.id)),
                },
                text: &comment.body,
                app: comment.app(),
                at: comment.created_at,
            }),
            "deleted" => self.comment_deleted(subject, trigger),
            _ => Intent::Ignore("edited comments start nothing"),
        }
    }

    fn review(&self, pull: &PullFacts, review: &ReviewFacts) -> Intent {
        if self.delivery.action != "submitted" {
            return Intent::Ignore("nothing is made of this action");
        }
        self.said(Said {
            subject: Subject::Pull(pull.number),
            state: &pull.state,
            pins: pull_pins(pull),
            trigger: Trigger::Review { id: review.id },
            act: Act::Single(format!("review-{}", review.id)),
            text: &review.body,
            app: None,
            at: review.submitted_at,
        })
    }

    fn pull(&self, pull: &PullFacts) -> Intent {
        match self.delivery.action.as_str() {
            "closed" => self.cancel(Subject::Pull(pull.number), Happened::PullClosed),
            "synchronize" => self.head_moved(pull),
            _ => Intent::Ignore("nothing is made of this action"),
        }
    }

    fn repository(&self) -> Intent {
        let (repo, installation) = (self.repo.clone(), self.installation);
        match self.delivery.action.as_str() {
            "renamed" => Intent::RepoRenamed(repo),
            "transferred" => Intent::RepoMoved {
                repo,
                installation,
                reason: self.happened(Happened::RepositoryMoved),
            },
            "deleted" => Intent::RepoGone {
                repo,
                installation,
                reason: self.happened(Happened::RepositoryDeleted),
            },
            _ => Intent::Ignore("nothing is made of this action"),
        }
    }

    fn cancel(&self, subject: Subject, happened: Happened) -> Intent {
        Intent::CancelSubject {
            repo: self.repo.id,
            subject,
            reason: self.happened(happened),
        }
    }

    fn happened(&self, happened: Happened) -> &'static str {
        reason::happened(self.rules.language, happened)
    }

    fn comment_deleted(&self, subject: Subject, trigger: Trigger) -> Intent {
        Intent::CancelTrigger {
            repo: self.repo.id,
            subject,
            trigger,
            reason: self.happened(Happened::CommentDeleted),
        }
    }

    fn said(&self, said: Said<'_>) -> Intent {
        let Some(command) = Command::parse(said.text, &self.rules.command) else {
            return Intent::Ignore("no command");
        };
        let actor = match self.person(said.app) {
            Ok(actor) => actor,
            Err(reason) => return Intent::Ignore(reason),
        };
        let Some(triggered_at) = said.at else {
            return Intent::Ignore("the time of the trigger is not known");
        };
        let (kind, instructions) = answer::to(command, said.state == "open", &said.subject, self.rules);
        let (Act::Single(act) | Act::UnknownReview(act)) = &said.act;
        let key = format!("{kind}:{}:{}:{act}", self.repo.id, said.subject);
        let request = Request {
            trigger: said.trigger,
            actor,
            instructions,
            triggered_at,
        };
        let job = self.job(kind, said.subject, key, request, said.pins);
        match said.act {
            Act::UnknownReview(_) if kind == JobKind::Fix => Intent::Join(job),
            _ => Intent::Start(job),
        }
    }

    fn job(&self, kind: JobKind, subject: Subject, key: String, request: Request, pins: Pins) -> Box<NewJob> {
        Box::new(NewJob {
            repo_id: self.repo.id,
            repo: self.repo.name.clone(),
            installation: self.installation,
            kind,
            subject,
            dedupe_key: Some(key),
            priority: if kind.is_work() { 0 } else { CONTROL_PRIORITY },
            run_at: self.delivery.received_at,
            max_attempts: self.rules.max_attempts,
            request,
            pins,
        })
    }

    /// The person behind the delivery, or why there is none. The one gate in front of every
    /// start: we never listen to ourselves, and to other bots only where their App is listed by
    /// number. `app` is the App through which words were written, where GitHub tells.
    fn person(&self, app: Option<AppId>) -> Result<Actor, &'static str> {
        let Some(sender) = &self.delivery.sender else {
            return Err("nobody is named as the sender");
        };
        let is_bot = sender.kind == "Bot" || sender.login.ends_with("[bot]");
        let actor = Actor {
            id: sender.id,
            login: sender.login.clone(),
            is_bot,
        };
        if app.is_some() && app == self.rules.app_id || is_bot && self.has_our_login() {
            return Err("our own act");
        }
        if let Some(app) = app {
            let listed = self.rules.allowed_apps.contains(&app);
            return if listed {
                Ok(actor)
            } else {
                Err("written through an App that is not listed")
            };
        }
        match sender.kind.as_str() {
            _ if is_bot => Err("a bot that is not listed"),
            "User" if is_login(&sender.login) => Ok(actor),
            _ => Err("the sender is not a person"),
        }
    }

    fn has_our_login(&self) -> bool {
        let login = self
            .delivery
            .sender
            .as_ref()
            .map(|sender| sender.login.as_str())
            .unwrap_or_default();
        self.rules
            .bot_slug
            .as_ref()
            .is_some_and(|slug| login.strip_suffix("[bot]") == Some(slug))
    }

    /// While our slug is not known, every bot may be us.
    fn is_our_own_act(&self) -> bool {
        let is_bot = self.delivery.sender.as_ref().is_some_and(|sender| sender.kind == "Bot");
        is_bot && (self.rules.bot_slug.is_none() || self.has_our_login())
    }
}

/// The grammar of logins of people, also those that a company's directory made (`name_corp`).
fn is_login(login: &str) -> bool {
    (1..=100).contains(&login.len())
        && login
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

fn issue_pins(issue: &IssueFacts) -> Pins {
    Pins {
        title: Some(issue.title.clone()),
        body: Some(issue.body.clone()),
        head_sha: None,
        author: issue.user.as_ref().map(|user| user.login.clone()),
        suite: None,
    }
}

fn pull_pins(pull: &PullFacts) -> Pins {
    Pins {
        title: Some(pull.title.clone()),
        body: Some(pull.body.clone()),
        head_sha: pull.head_sha(),
        author: pull.user.as_ref().map(|user| user.login.clone()),
        suite: None,
    }
}

#[cfg(test)]
mod tests;
