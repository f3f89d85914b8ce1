//! One review: looked up by its marker, sent once, and sent without places when GitHub refuses one
//! of them. Never sends the same comments twice in one review.

use super::super::review::with_comments_below;
use super::{Landed, MAX_LOOKED_THROUGH, Step};
use crate::effect::LineComment;
use crate::github::{NewReview, NewReviewComment};
use crate::ids::{CommitSha, IssueNumber};
use crate::job::JobError;

impl Step<'_> {
    /// Our review with this effect's marker.
    pub(super) async fn own_review(&self, number: IssueNumber) -> Result<Option<String>, JobError> {
        let marker = self.publisher.marker.marker(&self.leased.job.id, self.effect.seq);
        let ours = format!("{}[bot]", self.publisher.app.slug);
        let reviews = self.client.reviews(number, MAX_LOOKED_THROUGH).await?;
        let own = reviews.iter().filter(|review| {
            let is_ours = review.user.as_ref().is_some_and(|user| user.login == ours);
            is_ours && review.body.contains(&marker)
        });
        self.settled_on(self.one_review(number, own.collect()).await?).await
    }

    pub(super) async fn submit_review(
        &self,
        number: IssueNumber,
        commit: &CommitSha,
        body: &str,
        comments: &[LineComment],
    ) -> Result<Landed, JobError> {
        let marker = self.publisher.marker.marker(&self.leased.job.id, self.effect.seq);
        let on_lines = comments.iter().map(|comment| NewReviewComment {
            path: comment.path.clone(),
            line: comment.line,
            side: comment.side,
            start_line: None,
            body: comment.body.clone(),
        });
        let mut new = NewReview {
            commit_id: commit.clone(),
            body: format!("{body}\n\n{marker}"),
            comments: on_lines.collect(),
        };
        match self.client.create_review(number, &new).await {
            Err(error) if error.is_bad_anchor() => {
                tracing::info!(%error, "GitHub refused a place of a comment; the review is sent without places");
                new.body = format!("{}\n\n{marker}", with_comments_below(body, comments));
                new.comments.clear();
                let id = self.client.create_review(number, &new).await?.id.to_string();
                Ok(Landed::Beside(id, "GitHub refused a place of a comment".to_owned()))
            }
            sent => Ok(Landed::As(sent?.id.to_string())),
        }
    }
}
