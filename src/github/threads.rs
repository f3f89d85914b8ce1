//! Review threads: whether they are resolved or outdated, which only GraphQL tells, with their
//! comments. Called by `run` and `publish`. Never resolves a thread unasked.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::json;

use crate::ids::{CommentId, CommitSha, IssueNumber, UserId};

use super::error::GitHubError;
use super::graphql::Operation;
use super::{Account, NodeId, RepoClient, Side};

/// Threads on a page; with their comments GitHub's limit of nodes stays far.
const THREADS_PER_PAGE: usize = 50;

/// Ten thousand comments of one thread, or five thousand threads, are no conversation.
const MAX_PAGES: usize = 100;

macro_rules! comments_selection {
    () => {
        "pageInfo { hasNextPage endCursor }
        nodes {
          fullDatabaseId
          body
          createdAt
          updatedAt
          diffHunk
          author {
            __typename
            login
            ... on User { databaseId }
            ... on Bot { databaseId }
            ... on Mannequin { databaseId }
            ... on Organization { databaseId }
          }
          originalCommit { oid }
          replyTo { fullDatabaseId }
          pullRequestReview { fullDatabaseId }
        }"
    };
}

const REVIEW_THREADS: Operation = Operation {
    name: "ReviewThreads",
    text: concat!(
        "query ReviewThreads($owner: String!, $name: String!, $number: Int!, $first: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: $first, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          id
          isResolved
          isOutdated
          path
          line
          startLine
          originalLine
          diffSide
          comments(first: 100) {
            ",
        comments_selection!(),
        "
          }
        }
      }
    }
  }
}"
    ),
};

const THREAD_COMMENTS: Operation = Operation {
    name: "ThreadComments",
    text: concat!(
        "query ThreadComments($thread: ID!, $after: String) {
  node(id: $thread) {
    ... on PullRequestReviewThread {
      comments(first: 100, after: $after) {
        ",
        comments_selection!(),
        "
      }
    }
  }
}"
    ),
};

const RESOLVE_THREAD: Operation = Operation {
    name: "ResolveThread",
    text: "mutation ResolveThread($thread: ID!) {
  resolveReviewThread(input: { threadId: $thread }) {
    thread { id isResolved }
  }
}",
};

/// What this file sends.
#[cfg(test)]
pub(super) const OPERATIONS: &[&Operation] = &[&REVIEW_THREADS, &THREAD_COMMENTS, &RESOLVE_THREAD];

/// A conversation about lines of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewThread {
    /// Its id, for [`RepoClient::resolve_thread`].
    pub id: NodeId,
    /// Whether somebody resolved it.
    pub is_resolved: bool,
    /// Whether the lines have changed since.
    pub is_outdated: bool,
    /// File; it may be deleted by now.
    pub path: String,
    /// Line now, the last one of several; `None` when the thread is outdated or about the file.
    pub line: Option<u64>,
    /// First line of several.
    pub start_line: Option<u64>,
    /// Line when the thread began.
    pub original_line: Option<u64>,
    /// Side of the line.
    pub side: Side,
    /// Comments, oldest first; the first is the one that replies go to.
    pub comments: Vec<ThreadComment>,
}

impl ReviewThread {
    /// The comment that replies go to; a thread whose comments were all deleted has none.
    pub fn root(&self) -> Option<&ThreadComment> {
        self.comments.first()
    }
}

/// A comment of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadComment {
    /// Id, as REST and webhooks know it.
    pub id: CommentId,
    /// Author, spelled as REST spells it; a deleted account is `None`.
    pub author: Option<Account>,
    /// Text.
    pub body: String,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
    /// The diff around the line when it was written.
    pub diff_hunk: String,
    /// The commit it was written on.
    pub commit: Option<CommitSha>,
    /// The comment it answers.
    pub reply_to: Option<CommentId>,
    /// The review it came with.
    pub review: Option<u64>,
}

impl RepoClient {
    /// Review threads of a pull request with all their comments, oldest first, at most `max`.
    pub async fn review_threads(&self, number: IssueNumber, max: usize) -> Result<Vec<ReviewThread>, GitHubError> {
        let mut threads = Vec::new();
        let mut after: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let variables = json!({
                "owner": self.name.owner(),
                "name": self.name.name(),
                "number": number,
                "first": THREADS_PER_PAGE.min(max.saturating_sub(threads.len())).max(1),
                "after": after,
            });
            let answer: shape::Threads = self.query(&REVIEW_THREADS, variables).await?;
            let page = answer
                .repository
                .and_then(|repository| repository.pull_request)
                .map(|pull| pull.review_threads)
                .ok_or_else(|| GitHubError::NotFound {
                    what: format!("GraphQL {} of pull request {number}", REVIEW_THREADS.name),
                })?;
            for thread in page.nodes.into_iter().flatten() {
                if threads.len() < max {
                    threads.push(self.whole_thread(thread).await?);
                }
            }
            after = page.page_info.next();
            if after.is_none() || threads.len() >= max {
                return Ok(threads);
            }
        }
        Err(endless(&REVIEW_THREADS))
    }

    async fn whole_thread(&self, thread: shape::Thread) -> Result<ReviewThread, GitHubError> {
        let mut comments: Vec<ThreadComment> = thread.comments.read();
        let mut after = thread.comments.page_info.next();
        for _ in 0..MAX_PAGES {
            let Some(cursor) = after else {
                return Ok(ReviewThread {
                    id: thread.id,
                    is_resolved: thread.is_resolved,
                    is_outdated: thread.is_outdated,
                    path: thread.path,
                    line: thread.line,
                    start_line: thread.start_line,
                    original_line: thread.original_line,
                    side: thread.diff_side,
                    comments,
                });
            };
            let variables = json!({ "thread": thread.id, "after": cursor });
            let answer: shape::One = self.query(&THREAD_COMMENTS, variables).await?;
            let page = answer.node.and_then(|node| node.comments);
            let page = page.ok_or_else(|| GitHubError::NotFound {
                what: format!("GraphQL {} of {}", THREAD_COMMENTS.name, thread.id),
            })?;
            comments.extend(page.read());
            after = page.page_info.next();
        }
        Err(endless(&THREAD_COMMENTS))
    }

    /// Marks a thread as resolved. That it is resolved already is fine.
    pub async fn resolve_thread(&self, thread: &NodeId) -> Result<(), GitHubError> {
        self.mutate(&RESOLVE_THREAD, json!({ "thread": thread })).await
    }
}

fn endless(operation: &Operation) -> GitHubError {
    GitHubError::Unclear {
        what: format!("GraphQL {}", operation.name),
        detail: format!("the list has more than {MAX_PAGES} pages"),
    }
}

/// The answers as GitHub shapes them.
mod shape {
    use super::*;

    #[derive(Deserialize)]
    pub(super) struct Threads {
        pub(super) repository: Option<Repository>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Repository {
        pub(super) pull_request: Option<Pull>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Pull {
        pub(super) review_threads: Page<Thread>,
    }

    #[derive(Deserialize)]
    pub(super) struct One {
        pub(super) node: Option<Node>,
    }

    #[derive(Deserialize)]
    pub(super) struct Node {
        pub(super) comments: Option<Page<Comment>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Page<T> {
        pub(super) page_info: PageInfo,
        #[serde(default = "Vec::new")]
        pub(super) nodes: Vec<Option<T>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct PageInfo {
        has_next_page: bool,
        end_cursor: Option<String>,
    }

    impl PageInfo {
        pub(super) fn next(&self) -> Option<String> {
            self.end_cursor.clone().filter(|_| self.has_next_page)
        }
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Thread {
        pub(super) id: NodeId,
        pub(super) is_resolved: bool,
        pub(super) is_outdated: bool,
        pub(super) path: String,
        pub(super) line: Option<u64>,
        pub(super) start_line: Option<u64>,
        pub(super) original_line: Option<u64>,
        pub(super) diff_side: Side,
        pub(super) comments: Page<Comment>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Comment {
        full_database_id: Option<BigInt>,
        body: String,
        created_at: DateTime<Utc>,
        updated_at: DateTime<Utc>,
        diff_hunk: String,
        author: Option<Actor>,
        original_commit: Option<Commit>,
        reply_to: Option<Numbered>,
        pull_request_review: Option<Numbered>,
    }

    #[derive(Deserialize)]
    struct Commit {
        oid: CommitSha,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Numbered {
        full_database_id: Option<BigInt>,
    }

    /// Ids have outgrown GraphQL's 32 bits, so they come as text.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum BigInt {
        Number(u64),
        Text(String),
    }

    impl BigInt {
        fn value(&self) -> Option<u64> {
            match self {
                BigInt::Number(number) => Some(*number),
                BigInt::Text(text) => text.parse().ok(),
            }
        }
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Actor {
        #[serde(rename = "__typename")]
        kind: String,
        login: String,
        database_id: Option<u64>,
    }

    impl Actor {
        /// GraphQL leaves the `[bot]` out that REST and webhooks have.
        fn account(&self) -> Option<Account> {
            let bot = self.kind == "Bot" && !self.login.ends_with("[bot]");
            Some(Account {
                id: UserId(self.database_id?),
                login: format!("{}{}", self.login, if bot { "[bot]" } else { "" }),
                kind: self.kind.clone(),
            })
        }
    }

    impl Page<Comment> {
        pub(super) fn read(&self) -> Vec<ThreadComment> {
            let id_of = |numbered: &Option<Numbered>| numbered.as_ref()?.full_database_id.as_ref()?.value();
            let comments = self.nodes.iter().flatten().filter_map(|comment| {
                Some(ThreadComment {
                    id: CommentId(comment.full_database_id.as_ref()?.value()?),
                    author: comment.author.as_ref().and_then(Actor::account),
                    body: comment.body.clone(),
                    created_at: comment.created_at,
                    updated_at: comment.updated_at,
                    diff_hunk: comment.diff_hunk.clone(),
                    commit: comment.original_commit.as_ref().map(|commit| commit.oid.clone()),
                    reply_to: id_of(&comment.reply_to).map(CommentId),
                    review: id_of(&comment.pull_request_review),
                })
            });
            comments.collect()
        }
    }
}
