//! Replies in review threads, and what follows from them: resolving, and asking reviewers to look
//! again. What a reply says of a fix is decided here, from what really was pushed. Never replies to
//! a reply, which GitHub refuses, and never resolves a thread in which somebody said more than
//! the run saw.

use super::{CLOCK_SLACK, Landed, MAX_LOOKED_THROUGH, Step, plan, pushed};
use crate::effect::{Effect, EffectBody, EffectState};
use crate::github::GitHubError;
use crate::ids::{BranchName, CommentId, CommitSha, IssueNumber};
use crate::job::JobError;
use crate::phrase::thread::{self as words, Said};

/// Most threads looked through for the one to resolve.
const MAX_THREADS: usize = 1_000;

/// Where the change is that a reply speaks of.
enum Change {
    /// On the pull request's branch.
    There(CommitSha),
    /// Somewhere else.
    Elsewhere,
    /// Nowhere on GitHub.
    Nowhere,
}

impl Step<'_> {
    /// Our reply with this effect's marker.
    pub(super) async fn own_reply(&self, number: IssueNumber) -> Result<Option<String>, JobError> {
        let marker = self.publisher.marker.marker(&self.leased.job.id, self.effect.seq);
        let ours = format!("{}[bot]", self.publisher.app.slug);
        let since = self.leased.job.created_at - CLOCK_SLACK;
        let comments = self
            .client
            .review_comments(number, Some(since), MAX_LOOKED_THROUGH)
            .await?;
        let own = comments.iter().filter(|comment| {
            let is_ours = comment.user.as_ref().is_some_and(|user| user.login == ours);
            is_ours && comment.body.contains(&marker)
        });
        self.settled_on(self.one_reply(own.collect()).await?).await
    }

    /// Why an effect about a thread is not wanted any more, as far as our own rows tell.
    pub(super) async fn thread_superfluous(&self) -> Result<Option<String>, JobError> {
        match &self.effect.body {
            EffectBody::ReplyThread {
                said: Said::Fixed,
                branch: Some(branch),
                ..
            } => {
                let change = self.change(Some(branch)).await?;
                Ok(matches!(change, Change::Nowhere).then(|| "the change was not pushed".to_owned()))
            }
            EffectBody::ResolveThread { .. } => {
                let all = self.all().await?;
                let reply = all.iter().find(|effect| effect.seq == self.effect.seq - 1);
                let is_fixed = reply.is_some_and(|reply| reply.state == EffectState::Done && reply.problem.is_none());
                Ok((!is_fixed).then(|| "no reply says that it is fixed".to_owned()))
            }
            EffectBody::RequestReview { .. } => self.nothing_to_look_at().await,
            _ => Ok(None),
        }
    }

    /// People are asked to look again only where something is new for them: a reply, and the
    /// commits if there should be some.
    async fn nothing_to_look_at(&self) -> Result<Option<String>, JobError> {
        let all = self.all().await?;
        let first = plan::at(&self.leased.job, 0);
        let replies: Vec<&Effect> = all
            .iter()
            .filter(|effect| effect.seq >= first && matches!(effect.body, EffectBody::ReplyThread { .. }))
            .collect();
        if !replies.iter().any(|reply| reply.state == EffectState::Done) {
            return Ok(Some("no thread was answered".to_owned()));
        }
        let wanted = replies.iter().find_map(|reply| match &reply.body {
            EffectBody::ReplyThread { branch, .. } => branch.as_ref(),
            _ => None,
        });
        let Some(branch) = wanted else { return Ok(None) };
        let change = self.change(Some(branch)).await?;
        Ok((!matches!(change, Change::There(_))).then(|| "the change is not on the branch".to_owned()))
    }

    async fn change(&self, wanted: Option<&BranchName>) -> Result<Change, JobError> {
        let Some(wanted) = wanted else {
            return Ok(Change::Elsewhere);
        };
        Ok(match pushed(&self.all().await?, self.effect.seq) {
            Some((branch, sha)) if branch == *wanted => Change::There(sha),
            Some(_) => Change::Elsewhere,
            None => Change::Nowhere,
        })
    }

    pub(super) async fn reply_thread(
        &self,
        (number, root): (IssueNumber, CommentId),
        said: Said,
        branch: Option<&BranchName>,
        reply: &str,
    ) -> Result<Landed, JobError> {
        let language = self.publisher.language;
        let (lead, beside) = match said {
            Said::Fixed => match self.change(branch).await? {
                Change::There(sha) => (words::fixed_in(language, sha.short()), None),
                Change::Elsewhere | Change::Nowhere => (
                    words::elsewhere(language).to_owned(),
                    Some("the change is not on the branch"),
                ),
            },
            other => (words::lead(language, other).to_owned(), None),
        };
        let marker = self.publisher.marker.marker(&self.leased.job.id, self.effect.seq);
        let body = match reply.trim() {
            "" => format!("{lead}\n\n{marker}"),
            reply => format!("{lead}\n\n{reply}\n\n{marker}"),
        };
        let sent = self.client.reply_to_review_comment(number, root, &body).await;
        Ok(match (sent, beside) {
            (Ok(comment), None) => Landed::As(comment.id.to_string()),
            (Ok(comment), Some(why)) => Landed::Beside(comment.id.to_string(), why.to_owned()),
            (Err(GitHubError::NotFound { .. }), _) => {
                Landed::Not(EffectState::Skipped, "the thread was deleted".to_owned())
            }
            // The conversation is locked, or the comment is not the first of a thread any more.
            (Err(error @ GitHubError::Rejected { .. }), _) => Landed::Not(EffectState::Skipped, error.to_string()),
            (Err(error), _) => return Err(error.into()),
        })
    }

    pub(super) async fn resolve_thread(
        &self,
        number: IssueNumber,
        root: CommentId,
        seen: CommentId,
    ) -> Result<Landed, JobError> {
        let skipped = |why: &str| Ok(Landed::Not(EffectState::Skipped, why.to_owned()));
        let threads = self.client.review_threads(number, MAX_THREADS).await?;
        let found = threads
            .iter()
            .find(|thread| thread.root().is_some_and(|first| first.id == root));
        let Some(thread) = found else {
            return skipped("the thread was deleted");
        };
        if thread.is_resolved {
            return skipped("somebody resolved it");
        }
        let all = self.all().await?;
        let reply = all.iter().find(|effect| effect.seq == self.effect.seq - 1);
        let ours = reply.and_then(|reply| reply.remote_id.as_deref());
        let mut later = thread.comments.iter().filter(|comment| comment.id.0 > seen.0);
        if later.any(|comment| Some(comment.id.to_string().as_str()) != ours) {
            return skipped("somebody said more in it");
        }
        self.client.resolve_thread(&thread.id).await?;
        Ok(Landed::As(root.to_string()))
    }

    /// GitHub does not ask the author, nor people without access.
    pub(super) async fn request_review(&self, number: IssueNumber, logins: &[String]) -> Result<Landed, JobError> {
        let refused = match self.client.request_reviewers(number, logins).await {
            Err(GitHubError::NotFound { .. }) => logins.to_vec(),
            refused => refused?,
        };
        let asked: Vec<&str> = logins
            .iter()
            .filter(|login| !refused.contains(login))
            .map(String::as_str)
            .collect();
        Ok(match asked.is_empty() {
            true => Landed::Not(
                EffectState::Skipped,
                format!("GitHub cannot ask {} for a review", refused.join(", ")),
            ),
            false => Landed::As(asked.join(",")),
        })
    }
}
