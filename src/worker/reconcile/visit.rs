//! One look at one repository: what changed since the last one, as deliveries, in an order in which they
//! mean the same as when they happened. Called by the door of `reconcile`.
//! Never makes more calls than the pass has left.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, TimeDelta, Utc};

use super::{OVERLAP, Pass};
use crate::github::{GitHubError, Issue, IssueEvent, Label, Pull, RepoClient, RepoEvent, Said};
use crate::ids::{IssueNumber, Subject};
use crate::intake::{BadDelivery, Command, Delivery, Rebuilder, Rules, accept};
use crate::job::{Job, Trigger};
use crate::store::{JobFilter, RepoRow, Store, StoreError};

/// Pages of one list that a look reads; the next one goes on.
const MAX_PAGES: usize = 20;
/// Pages of what happened, which cannot be gone on with.
const MAX_EVENT_PAGES: usize = 50;
/// Pull requests whose reviews a look reads, each with a call: no page is read after so many.
const MAX_PULLS: usize = 50;
/// Reviews that a pull request ever has.
const MAX_REVIEWS: usize = 1_000;
/// Jobs that an issue or pull request ever has.
const MAX_JOBS: u32 = 1_000;
/// A comment on a line may lie in a review for so long before it is submitted.
const LONGEST_REVIEW: TimeDelta = TimeDelta::days(7);
/// The times that GitHub tells of one label's coming differ by no more.
const SAME_ACT: TimeDelta = TimeDelta::seconds(3);

/// Why a look did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// GitHub.
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    /// The pass has made its calls.
    #[error("the calls of this pass are used up")]
    UsedUp,
}

/// The calls that a pass may still make.
pub(super) struct Calls(AtomicU32);

impl Calls {
    pub(super) fn new(most: u32) -> Self {
        Self(AtomicU32::new(most))
    }

    pub(super) fn are_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Before each call.
    pub(super) fn one(&self) -> Result<(), Stopped> {
        let less = |left: u32| left.checked_sub(1);
        let made = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        made.map(drop).map_err(|_| Stopped::UsedUp)
    }
}

/// How far a look came.
pub(super) struct Seen {
    pub(super) found: usize,
    pub(super) to: DateTime<Utc>,
    pub(super) mark: Option<String>,
    pub(super) is_complete: bool,
}

/// A look that goes on.
pub(super) struct Visit<'a> {
    pub(super) store: &'a Store,
    pub(super) client: RepoClient,
    pub(super) rules: &'a Rules,
    pub(super) rebuilder: Rebuilder,
    pub(super) repo: &'a RepoRow,
    pub(super) since: DateTime<Utc>,
    pub(super) now: DateTime<Utc>,
    pub(super) calls: &'a Calls,
}

/// What the list of changed issues says.
struct Changed {
    issues: HashMap<IssueNumber, Issue>,
    last: Option<DateTime<Utc>>,
    mark: Option<String>,
    /// Where the list was left before its end.
    read_to: Option<DateTime<Utc>>,
}

/// Where a list that begins with the first change goes on. What changes meanwhile moves to its end, so
/// that page numbers alone would leave something out.
struct Place {
    since: DateTime<Utc>,
    page: usize,
}

impl Place {
    fn begin(since: DateTime<Utc>) -> Self {
        Self { since, page: 1 }
    }

    /// After a full page whose last change was then.
    fn go_on(&mut self, last: Option<DateTime<Utc>>) {
        match last {
            Some(last) if last > self.since => *self = Self::begin(last),
            _ => self.page += 1,
        }
    }
}

/// What was found, by when it happened.
pub(super) type Found = Vec<(DateTime<Utc>, Result<Delivery, BadDelivery>)>;

/// What happened to issues and pull requests, the last first.
struct Events {
    events: Vec<RepoEvent>,
    /// Whether they are all since the last look.
    is_whole: bool,
}

/// The same, and where the list was left before its end.
type Cut = (Found, Option<DateTime<Utc>>);

impl Visit<'_> {
    /// Everything. A repository without news costs one call, which GitHub does not even count.
    pub(super) async fn all(&self, mark: Option<&str>, pass: Pass) -> Result<Seen, Stopped> {
        let changed = self.changed(mark).await?;
        let mut seen = Seen {
            found: 0,
            to: self.since,
            mark: mark.map(str::to_owned),
            is_complete: true,
        };
        if pass == Pass::First || changed.is_some() {
            seen.found += self.accept(self.gone().await?).await?;
        }
        let Some(changed) = changed else {
            return Ok(seen);
        };
        let Events { events, is_whole } = self.events().await?;
        let (ends, mut found) = self.happened(&changed, &events).await?;
        let (said, said_to) = self.comments(&changed, &events).await?;
        let (on_lines, lines_to) = self.line_comments(&events).await?;
        found.extend(said.into_iter().chain(on_lines));
        found.extend(self.reviews(&changed, &events).await?);
        found.sort_by_key(|(at, _)| *at);
        // What was taken back again starts nothing, so that comes first.
        seen.found += self.accept(ends).await?;
        seen.found += self.accept(found).await?;
        seen.found += self.accept(self.unserved(&changed, &events, is_whole).await?).await?;
        let read_to = [changed.read_to, said_to, lines_to].into_iter().flatten().min();
        seen.is_complete = read_to.is_none();
        seen.to = self.next_since(changed.last, read_to);
        // The mark belongs to the address, and with it to the time in it.
        seen.mark = changed.mark.filter(|_| seen.to == self.since);
        Ok(seen)
    }

    async fn changed(&self, mark: Option<&str>) -> Result<Option<Changed>, Stopped> {
        let mut changed = Changed {
            issues: HashMap::new(),
            last: None,
            mark: None,
            read_to: None,
        };
        let mut place = Place::begin(self.since);
        for read in 1..=MAX_PAGES {
            self.calls.one()?;
            let mark = mark.filter(|_| read == 1);
            let listed = self.client.changed_issues(place.since, place.page, mark).await?;
            let Some(listed) = listed else {
                return Ok(None);
            };
            changed.last = listed.issues.last().map(|issue| issue.updated_at).or(changed.last);
            let is_full = listed.is_full;
            changed
                .issues
                .extend(listed.issues.into_iter().map(|issue| (issue.number, issue)));
            if !is_full {
                changed.mark = listed.etag.filter(|_| read == 1);
                return Ok(Some(changed));
            }
            place.go_on(changed.last);
            let is_pull = |issue: &&Issue| issue.pull_request.is_some();
            if changed.issues.values().filter(is_pull).count() >= MAX_PULLS {
                break;
            }
        }
        changed.read_to = Some(place.since);
        Ok(Some(changed))
    }

    /// Where the next look begins; `read_to` is where a list was left before its end. It goes on in any
    /// case, also where thousands changed in one second.
    fn next_since(&self, last: Option<DateTime<Utc>>, read_to: Option<DateTime<Utc>>) -> DateTime<Utc> {
        match (read_to, last) {
            (Some(read_to), _) if read_to - OVERLAP > self.since => read_to - OVERLAP,
            (Some(read_to), _) => read_to.max(self.since + TimeDelta::seconds(1)),
            (None, Some(last)) => (last - OVERLAP).max(self.since),
            (None, None) => self.since,
        }
    }

    /// What happened to issues and pull requests since the last look.
    async fn events(&self) -> Result<Events, Stopped> {
        let mut events: Vec<RepoEvent> = Vec::new();
        let mut is_whole = true;
        for page in 1..=MAX_EVENT_PAGES {
            self.calls.one()?;
            let listed = self.client.repo_events(page).await?;
            let is_old = |found: &RepoEvent| found.event.created_at < self.since;
            let reached = listed.items.iter().any(is_old);
            events.extend(listed.items);
            if reached || !listed.is_full {
                break;
            }
            is_whole = page < MAX_EVENT_PAGES;
        }
        if !is_whole {
            tracing::warn!(repo = %self.repo.name, "more happened since the last look than is read");
        }
        events.retain(|found| found.event.created_at >= self.since);
        Ok(Events { events, is_whole })
    }

    /// What ended, labels of ours that went and what was closed; and labels of ours that came.
    async fn happened(&self, changed: &Changed, events: &[RepoEvent]) -> Result<(Found, Found), Stopped> {
        let (mut ends, mut begins) = (Found::new(), Found::new());
        for found in events {
            let Some(told) = &found.issue else { continue };
            let issue = changed.issues.get(&told.number).unwrap_or(told);
            let event = &found.event;
            let label = event.label.as_ref().map(|label| &label.name);
            let ours = issue.pull_request.is_none() && label.is_some_and(|label| self.rules.starts_work(label));
            let delivery = || {
                let state = state_then(events, issue.number, event.created_at).unwrap_or(&issue.state);
                (event.created_at, self.rebuilder.happened(event, issue, state))
            };
            match event.event.as_str() {
                "labeled" if ours && !self.has_label_job(issue.number, event.created_at).await? => {
                    begins.push(delivery());
                }
                "unlabeled" if ours => ends.push(delivery()),
                "closed" => ends.push(delivery()),
                _ => {}
            }
        }
        ends.sort_by_key(|(at, _)| *at);
        Ok((ends, begins))
    }

    /// And where the list was left before its end.
    async fn comments(&self, changed: &Changed, events: &[RepoEvent]) -> Result<Cut, Stopped> {
        let mut found = Found::new();
        let mut place = Place::begin(self.since);
        for _ in 0..MAX_PAGES {
            self.calls.one()?;
            let listed = self.client.comments_since(place.since, place.page).await?;
            let last = listed.items.last().map(|said| said.comment.updated_at);
            for Said { number, comment } in listed.items {
                if !self.is_command(&comment.body) || comment.created_at < self.since {
                    continue;
                }
                let Some(mut issue) = self.issue(changed, number).await? else {
                    continue;
                };
                let trigger = Trigger::Comment { id: comment.id };
                if self.has_job(&subject_of(&issue), &trigger).await? {
                    continue;
                }
                if let Some(state) = state_then(events, number, comment.created_at) {
                    state.clone_into(&mut issue.state);
                }
                found.push((comment.created_at, self.rebuilder.commented(&comment, &issue)));
            }
            if !listed.is_full {
                return Ok((found, None));
            }
            place.go_on(last);
        }
        Ok((found, Some(place.since)))
    }

    async fn line_comments(&self, events: &[RepoEvent]) -> Result<Cut, Stopped> {
        let mut found = Found::new();
        let mut pulls: HashMap<IssueNumber, Pull> = HashMap::new();
        let mut place = Place::begin(self.since);
        for _ in 0..MAX_PAGES {
            self.calls.one()?;
            let listed = self.client.review_comments_since(place.since, place.page).await?;
            let last = listed.items.last().map(|said| said.comment.updated_at);
            for Said { number, comment } in listed.items {
                let is_old = comment.created_at < self.since - LONGEST_REVIEW;
                if is_old || !self.is_command(&comment.body) {
                    continue;
                }
                let trigger = Trigger::ReviewComment { id: comment.id };
                if self.has_job(&Subject::Pull(number), &trigger).await? {
                    continue;
                }
                let mut pull = match pulls.get(&number) {
                    Some(pull) => pull.clone(),
                    None => self.pull(number).await?,
                };
                pulls.insert(number, pull.clone());
                if let Some(state) = state_then(events, number, comment.updated_at) {
                    state.clone_into(&mut pull.state);
                }
                found.push((comment.updated_at, self.rebuilder.commented_on_line(&comment, &pull)));
            }
            if !listed.is_full {
                return Ok((found, None));
            }
            place.go_on(last);
        }
        Ok((found, Some(place.since)))
    }

    /// Issues that carry a label of ours and have no job for it, although its coming is known: it came while
    /// a job was open that was stopped by what nobody had told of yet. The label is taken as put on now, unless
    /// the issue was closed since.
    async fn unserved(&self, changed: &Changed, events: &[RepoEvent], is_whole: bool) -> Result<Found, Stopped> {
        let mut found = Found::new();
        for issue in changed.issues.values() {
            let is_label = |label: &Label| self.rules.starts_work(&label.name);
            if issue.pull_request.is_some() || issue.state != "open" || !issue.labels.iter().any(is_label) {
                continue;
            }
            let is_coming = |event: &IssueEvent| event.event == "labeled" && event.label.as_ref().is_some_and(is_label);
            let is_of_it = |found: &&RepoEvent| {
                let is_here = found.issue.as_ref().is_some_and(|other| other.number == issue.number);
                is_here && is_coming(&found.event)
            };
            let mut last = events.iter().find(is_of_it).map(|found| found.event.clone());
            let is_end = |event: &IssueEvent| event.event == "closed";
            let is_end_of_it = |found: &&RepoEvent| {
                let is_here = found.issue.as_ref().is_some_and(|other| other.number == issue.number);
                is_here && is_end(&found.event)
            };
            let mut closed = events.iter().find(is_end_of_it).map(|found| found.event.created_at);
            if last.is_none() && !is_whole {
                self.calls.one()?;
                let of_issue = self.client.issue_events(issue.number).await?;
                closed = of_issue
                    .iter()
                    .rev()
                    .find(|event| is_end(event))
                    .map(|event| event.created_at);
                last = of_issue.into_iter().rev().find(is_coming);
            }
            let Some(last) = last else { continue };
            // Closing it ended what the label asked for; who opens it again asks for nothing.
            if closed.is_some_and(|closed| closed >= last.created_at) {
                continue;
            }
            let is_by_person = last.actor.as_ref().is_some_and(|actor| actor.kind == "User");
            let serves = |job: &Job| {
                let is_by_label = job.request.trigger.label().is_some();
                is_by_label && (!job.state.is_final() || job.request.triggered_at >= last.created_at - SAME_ACT)
            };
            let jobs = self.jobs(&Subject::Issue(issue.number)).await?;
            if is_by_person && !jobs.iter().any(serves) {
                let now = IssueEvent {
                    created_at: self.now,
                    ..last
                };
                found.push((self.now, self.rebuilder.happened(&now, issue, &issue.state)));
            }
        }
        Ok(found)
    }

    /// Reviews are listed by pull request only.
    async fn reviews(&self, changed: &Changed, events: &[RepoEvent]) -> Result<Found, Stopped> {
        let mut found = Found::new();
        for issue in changed.issues.values().filter(|issue| issue.pull_request.is_some()) {
            self.calls.one()?;
            let reviews = self.client.reviews(issue.number, MAX_REVIEWS).await?;
            for review in reviews {
                let Some(at) = review.submitted_at.filter(|at| *at >= self.since) else {
                    continue;
                };
                let trigger = Trigger::Review { id: review.id };
                let is_news = self.is_command(&review.body) && !self.has_job(&subject_of(issue), &trigger).await?;
                if is_news {
                    let mut pull = self.pull(issue.number).await?;
                    if let Some(state) = state_then(events, issue.number, at) {
                        state.clone_into(&mut pull.state);
                    }
                    found.push((at, self.rebuilder.reviewed(&review, &pull)));
                }
            }
        }
        Ok(found)
    }

    async fn pull(&self, number: IssueNumber) -> Result<Pull, Stopped> {
        self.calls.one()?;
        Ok(self.client.pull(number).await?)
    }

    fn is_command(&self, text: &str) -> bool {
        Command::parse(text, &self.rules.command).is_some()
    }

    /// A comment's issue; none where it is gone meanwhile.
    async fn issue(&self, changed: &Changed, number: IssueNumber) -> Result<Option<Issue>, Stopped> {
        if let Some(issue) = changed.issues.get(&number) {
            return Ok(Some(issue.clone()));
        }
        self.calls.one()?;
        match self.client.issue(number).await {
            Ok(issue) => Ok(Some(issue)),
            Err(GitHubError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts what was found, one after another; returns how much of it was news.
    pub(super) async fn accept(&self, found: Found) -> Result<usize, Stopped> {
        let mut news = 0;
        for (_, delivery) in found {
            match delivery {
                Ok(delivery) => {
                    let accepted = accept(self.store, &delivery, self.rules).await?;
                    if !accepted.jobs.is_empty() || accepted.stopped > 0 {
                        news += 1;
                        tracing::info!(
                            repo = %self.repo.name, event = delivery.event, action = delivery.action,
                            outcome = accepted.outcome, "found on GitHub"
                        );
                    }
                }
                Err(problem) => tracing::warn!(repo = %self.repo.name, %problem, "what was found cannot be read"),
            }
        }
        Ok(news)
    }

    /// Whether a job was started by this coming of the label: deliveries are forgotten before jobs are.
    async fn has_label_job(&self, number: IssueNumber, at: DateTime<Utc>) -> Result<bool, Stopped> {
        let is_it =
            |job: &Job| job.request.trigger.label().is_some() && (job.request.triggered_at - at).abs() <= SAME_ACT;
        Ok(self.jobs(&Subject::Issue(number)).await?.iter().any(is_it))
    }

    async fn has_job(&self, subject: &Subject, trigger: &Trigger) -> Result<bool, Stopped> {
        let jobs = self.jobs(subject).await?;
        Ok(jobs.iter().any(|job| job.request.trigger == *trigger))
    }

    async fn jobs(&self, subject: &Subject) -> Result<Vec<Job>, StoreError> {
        let filter = JobFilter {
            states: Vec::new(),
            repo_id: Some(self.repo.id),
            subject: Some(subject.clone()),
            limit: MAX_JOBS,
        };
        self.store.begin().await?.jobs(&filter).await
    }
}

fn subject_of(issue: &Issue) -> Subject {
    match issue.pull_request {
        Some(_) => Subject::Pull(issue.number),
        None => Subject::Issue(issue.number),
    }
}

/// What an issue or pull request was at a time, where it was closed or opened again since.
fn state_then(events: &[RepoEvent], number: IssueNumber, at: DateTime<Utc>) -> Option<&'static str> {
    let turns = events.iter().filter_map(|found| {
        let is_of_it = found.issue.as_ref().is_some_and(|issue| issue.number == number);
        let before = match found.event.event.as_str() {
            "closed" => "open",
            "reopened" => "closed",
            _ => return None,
        };
        (is_of_it && found.event.created_at > at).then_some((found.event.created_at, before))
    });
    turns.min_by_key(|(at, _)| *at).map(|(_, before)| before)
}
