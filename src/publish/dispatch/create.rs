//! Creating what a person confirmed: issues with a marker by which they are found again, sub-issues
//! of an epic, private advisories, and the answer that names them. Called by the dispatcher.
//! Never creates twice: what may have been created is looked for, and what cannot be looked for is
//! not tried again.

use chrono::{DateTime, Utc};

use super::super::plan;
use super::{CLOCK_SLACK, Landed, Step};
use crate::effect::{Effect, EffectBody, EffectState};
use crate::github::{GitHubError, NewIssue, Severity};
use crate::ids::{DraftId, IssueNumber};
use crate::job::JobError;
use crate::phrase::{draft as words, reason};

/// Most issues of ours looked through.
const MAX_ISSUES: usize = 300;

/// An issue as its row has it.
pub(super) struct Wanted<'a> {
    pub(super) draft: &'a DraftId,
    pub(super) part: u32,
    pub(super) offered_at: DateTime<Utc>,
}

impl Step<'_> {
    /// Performs the rows of this file.
    pub(super) async fn create(&self) -> Result<Landed, JobError> {
        match &self.effect.body {
            EffectBody::CreateIssue {
                draft,
                part,
                title,
                body,
                labels,
                ..
            } => {
                let marker = self.publisher.marker.of_draft(draft, *part);
                let new = NewIssue {
                    title: title.clone(),
                    body: format!("{body}\n\n{marker}"),
                    labels: labels.clone(),
                };
                let issue = self.client.create_issue(&new).await?;
                Ok(Landed::As(issue.number.to_string()))
            }
            EffectBody::CreateAdvisory {
                summary,
                description,
                severity,
                ..
            } => self.create_advisory(summary, description, severity).await,
            EffectBody::AddSubIssue { parent, child } => self.add_sub_issue(*parent, *child).await,
            EffectBody::TellCreated { number } => self.tell_created(*number).await,
            other => Ok(Landed::Not(
                EffectState::Failed,
                format!("{} creates nothing", other.kind()),
            )),
        }
    }

    /// The issue with the marker of this draft, whoever's word created it.
    pub(super) async fn own_issue(&self, wanted: &Wanted<'_>) -> Result<Option<String>, JobError> {
        let marker = self.publisher.marker.of_draft(wanted.draft, wanted.part);
        let since = wanted.offered_at - CLOCK_SLACK;
        let issues = self.client.issues_of_ours(since, MAX_ISSUES).await?;
        let ours = issues.iter().filter(|issue| issue.body.contains(&marker));
        self.settled_on(self.one_issue(ours.collect()).await?).await
    }

    /// An advisory cannot be found again by a marker: after an unclear call it is for people to
    /// look.
    pub(super) fn no_second_advisory(&self) -> Result<Option<String>, JobError> {
        match self.effect.state {
            EffectState::Sending | EffectState::Unknown => Err(JobError::Fail(
                "GitHub did not answer, so it is not known whether the advisory exists; look under Security".to_owned(),
            )),
            EffectState::Pending | EffectState::Done | EffectState::Skipped | EffectState::Failed => Ok(None),
        }
    }

    async fn create_advisory(&self, summary: &str, description: &str, severity: &str) -> Result<Landed, JobError> {
        let severity = match severity {
            "low" => Severity::Low,
            "high" => Severity::High,
            "critical" => Severity::Critical,
            _ => Severity::Medium,
        };
        match self.client.create_advisory(summary, description, severity).await {
            Ok(advisory) => Ok(Landed::As(advisory.ghsa_id)),
            Err(GitHubError::Forbidden { .. } | GitHubError::NotFound { .. }) => Ok(Landed::Not(
                EffectState::Failed,
                "the App or the repository does not allow advisories".to_owned(),
            )),
            Err(error) => Err(error.into()),
        }
    }

    async fn add_sub_issue(&self, parent: i64, child: i64) -> Result<Landed, JobError> {
        let all = self.all().await?;
        let (Some(parent), Some(child)) = (issue_at(&all, parent), issue_at(&all, child)) else {
            return Ok(Landed::Not(
                EffectState::Skipped,
                "one of the issues does not exist".to_owned(),
            ));
        };
        let id = self.client.issue(child).await?.id;
        match self.client.add_sub_issue(parent, id).await {
            // That it is one already is what was wanted.
            Ok(()) | Err(GitHubError::Conflict { .. }) => Ok(Landed::As(child.to_string())),
            Err(
                error @ (GitHubError::Rejected { .. } | GitHubError::NotFound { .. } | GitHubError::Forbidden { .. }),
            ) => Ok(Landed::Not(EffectState::Failed, error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers with what became of the rows before this one.
    async fn tell_created(&self, number: IssueNumber) -> Result<Landed, JobError> {
        let body = self.created_in_words(&self.all().await?);
        let marker = self.publisher.marker.marker(&self.leased.job.id, self.effect.seq);
        let comment = self
            .client
            .create_comment(number, &format!("{body}\n\n{marker}"))
            .await?;
        Ok(Landed::As(comment.id.to_string()))
    }

    fn created_in_words(&self, all: &[Effect]) -> String {
        let language = self.publisher.language;
        let round = plan::at(&self.leased.job, 0);
        let now: Vec<&Effect> = all.iter().filter(|effect| effect.seq >= round).collect();
        let mut issues: Vec<u64> = Vec::new();
        let mut lines: Vec<String> = Vec::new();
        for effect in &now {
            let problem = effect.problem.as_deref().unwrap_or(reason::stopped(language));
            match (&effect.body, effect.state) {
                (EffectBody::CreateIssue { .. }, EffectState::Done) => {
                    issues.extend(effect.remote_id.as_deref().and_then(|id| id.parse::<u64>().ok()));
                }
                (EffectBody::CreateAdvisory { .. }, EffectState::Done) => {
                    lines.push(words::advised(language).to_owned())
                }
                (EffectBody::CreateIssue { .. } | EffectBody::CreateAdvisory { .. }, _) => {
                    lines.push(words::not_created(language, &self.publisher.safe(problem)));
                }
                (EffectBody::AddSubIssue { child, .. }, EffectState::Failed) => {
                    let child = issue_at(all, *child).map_or(0, |number| number.0);
                    lines.push(words::not_linked(language, child));
                }
                _ => {}
            }
        }
        if let Some((first, parts)) = issues.split_first() {
            let url = self.client.git_url();
            let url = format!("{}/issues/{first}", url.strip_suffix(".git").unwrap_or(&url));
            lines.insert(0, words::created(language, *first, &url, parts));
        }
        lines.dedup();
        lines.join("\n\n")
    }
}

/// The issue that the row at a position created.
fn issue_at(effects: &[Effect], seq: i64) -> Option<IssueNumber> {
    let row = effects.iter().find(|effect| effect.seq == seq)?;
    let number = row.remote_id.as_deref().filter(|_| row.state == EffectState::Done)?;
    number.parse().ok().map(IssueNumber)
}
