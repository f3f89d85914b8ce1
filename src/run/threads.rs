//! The review threads that a request is about, each with its place, its code and what was said in
//! it until the request. Called by `gather`. Never lets words in that were written or edited
//! afterwards, and never takes a thread for open that GitHub calls resolved.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::github::{RepoClient, ReviewThread, ThreadComment};
use crate::ids::IssueNumber;
use crate::job::{Job, JobError, Trigger};
use crate::text;
use crate::tool::Thread;

/// Most threads that are read of a pull request.
const MAX_READ: usize = 500;
/// Most threads that one run answers: each is a reply that people get a notification for.
const MAX_TAKEN: usize = 50;
/// Most bytes of all threads, and the least of one of them.
const MAX_BYTES: usize = 40 * 1024;
const MIN_BYTES_OF_ONE: usize = 1024;
/// Most bytes of one thread.
const MAX_BYTES_OF_ONE: usize = 8 * 1024;
/// Last lines of a hunk that are shown; the commented line is the last.
const HUNK_LINES: usize = 16;
/// Most bytes of the text of a review.
const MAX_REVIEW_BYTES: usize = 8 * 1024;
/// Most reviews that are looked through.
const MAX_REVIEWS: usize = 500;
/// What every marker of ours holds.
const OWN_MARK: &str = "<!-- forgehand:v1:";

/// What a request on a pull request is about.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The threads, oldest first.
    pub(super) threads: Vec<Thread>,
    /// How many more there are.
    pub(super) left: usize,
    /// The text of the review that asks; empty where none does.
    pub(super) review: String,
}

/// The threads of the review that asks for the work; of any other request, or of a review without
/// comments on lines, all that are not resolved. `files` are those of the head, where they are
/// known to be all.
///
/// # Errors
/// When GitHub does not answer.
pub(super) async fn wanted(
    client: &RepoClient,
    job: &Job,
    number: IssueNumber,
    files: Option<&[String]>,
    resolve: bool,
) -> Result<Wanted, JobError> {
    let all = client.review_threads(number, MAX_READ).await?;
    let asks = Asks::of(job, &all);
    let review = match asks.review {
        Some(id) => text_of_review(client, job, number, id).await?,
        None => String::new(),
    };
    let mut stood = stood_of(&all, &asks, job);
    if stood.is_empty() && asks.review.is_some() {
        let any = Asks {
            review: None,
            comment: None,
        };
        stood = stood_of(&all, &any, job);
    }
    let left = stood.len().saturating_sub(MAX_TAKEN);
    stood.truncate(MAX_TAKEN);
    let most = (MAX_BYTES / stood.len().max(1)).clamp(MIN_BYTES_OF_ONE, MAX_BYTES_OF_ONE);
    let files: Option<HashSet<&str>> = files.map(|files| files.iter().map(String::as_str).collect());
    let threads = stood.iter().enumerate().filter_map(|(at, stood)| {
        let root = stood.thread.root()?;
        let person = root.author.as_ref().filter(|author| author.kind == "User");
        let id = format!("t{}", at + 1);
        let is_gone = files
            .as_ref()
            .is_some_and(|files| !files.contains(stood.thread.path.as_str()));
        Some(Thread {
            text: shown(&id, stood, is_gone, most),
            id,
            root: root.id,
            seen: stood.comments.last()?.id,
            by: person.map(|author| author.login.clone()),
            resolve,
        })
    });
    Ok(Wanted {
        threads: threads.collect(),
        left,
        review,
    })
}

/// What asks: a review as a whole, and the comment in it that holds the command.
struct Asks {
    review: Option<u64>,
    comment: Option<crate::ids::CommentId>,
}

impl Asks {
    /// A review arrives as several deliveries; whichever comes first starts the job of all of them.
    fn of(job: &Job, threads: &[ReviewThread]) -> Self {
        match job.request.trigger {
            Trigger::Review { id } => Self {
                review: Some(id),
                comment: None,
            },
            Trigger::ReviewComment { id } => {
                let mut comments = threads.iter().flat_map(|thread| &thread.comments);
                Self {
                    review: comments
                        .find(|comment| comment.id == id)
                        .and_then(|comment| comment.review),
                    comment: Some(id),
                }
            }
            _ => Self {
                review: None,
                comment: None,
            },
        }
    }
}

/// A thread with those of its comments that stood when the work was asked for.
struct Stood<'a> {
    thread: &'a ReviewThread,
    comments: Vec<&'a ThreadComment>,
}

fn stood_of<'a>(threads: &'a [ReviewThread], asks: &Asks, job: &Job) -> Vec<Stood<'a>> {
    let asked_at = job.request.triggered_at;
    let mut all = Vec::new();
    for thread in threads {
        let holds_command = thread.comments.iter().any(|comment| Some(comment.id) == asks.comment);
        // Whoever commands in a resolved thread wants more of it.
        if thread.is_resolved && !holds_command {
            continue;
        }
        let is_of_review = |comment: &ThreadComment| asks.review.is_some() && comment.review == asks.review;
        let stood = thread.comments.iter().filter(|comment| {
            let author = comment.author.as_ref();
            let is_own = author.is_some_and(|author| author.id == job.request.actor.id);
            // The review's own comments came with it. They change when it is submitted, but then
            // they are the words of the person who asks. Others: GitHub tells seconds, and what is
            // as young as the request may be younger.
            match is_of_review(comment) {
                true => comment.updated_at <= asked_at || is_own,
                false => comment.updated_at < asked_at,
            }
        });
        let comments: Vec<&ThreadComment> = stood.collect();
        let belongs = asks.review.is_none() || comments.iter().any(|comment| is_of_review(comment));
        let is_answered = comments.len() > 1 && comments.last().is_some_and(|last| is_our_reply(last));
        if belongs && !comments.is_empty() && !is_answered {
            all.push(Stood { thread, comments });
        }
    }
    all
}

/// Our last word in a thread that nobody answered: it waits for the reviewer, not for us.
fn is_our_reply(comment: &ThreadComment) -> bool {
    let by_bot = comment.author.as_ref().is_some_and(|author| author.kind == "Bot");
    by_bot && comment.reply_to.is_some() && comment.body.contains(OWN_MARK)
}

fn shown(id: &str, stood: &Stood<'_>, is_gone: bool, max_bytes: usize) -> String {
    let thread = stood.thread;
    let line = thread.line.or(thread.original_line);
    let place = line.map_or_else(|| thread.path.clone(), |line| format!("{}:{line}", thread.path));
    let state = match (
        is_gone,
        thread.is_outdated || thread.line.is_none() && thread.original_line.is_some(),
    ) {
        (true, _) => " (outdated: this file is not in the branch any more)",
        (false, true) => " (outdated: these lines have changed since; the number is the old one)",
        (false, false) => "",
    };
    let mut out = format!("=== {id}: {}{state} ===", text::cap_chars(&place, 300));
    if let Some(root) = thread.root() {
        let _ = write!(out, "\n{}", indented(&last_lines(&root.diff_hunk, max_bytes / 2)));
    }
    let mut words = String::new();
    for comment in &stood.comments {
        let who = comment.author.as_ref().map_or("ghost", |author| author.login.as_str());
        let _ = write!(words, "\n{who}:\n{}", indented(comment.body.trim()));
    }
    if stood.comments.len() < thread.comments.len() {
        words.push_str("\n(What was written or edited here after the request is left out.)");
    }
    let left = max_bytes.saturating_sub(out.len()).max(MIN_BYTES_OF_ONE / 2);
    out.push_str(&text::cap_middle(&words, left));
    // The place and a hunk that is mostly blanks count, too: the next thread needs its room.
    text::cap_middle(&out, max_bytes)
}

/// The end of a hunk, where the commented line is, below its head.
fn last_lines(hunk: &str, max_bytes: usize) -> String {
    let hunk = text::cap_middle(hunk, max_bytes);
    let lines: Vec<&str> = hunk.lines().collect();
    if lines.len() <= HUNK_LINES {
        return lines.join("\n");
    }
    let head = lines.first().filter(|line| line.starts_with("@@"));
    let end = lines.iter().skip(lines.len() - HUNK_LINES);
    head.into_iter().chain(end).copied().collect::<Vec<_>>().join("\n")
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The text of the review that asks: words of the person who does.
async fn text_of_review(client: &RepoClient, job: &Job, number: IssueNumber, id: u64) -> Result<String, JobError> {
    let reviews = client.reviews(number, MAX_REVIEWS).await?;
    let own = reviews.iter().find(|review| {
        let is_own = review.user.as_ref().is_some_and(|user| user.id == job.request.actor.id);
        review.id == id && is_own
    });
    let body = own.map_or_else(String::new, |review| review.body.replace("\r\n", "\n"));
    // What follows the command is given to the agent as instructions.
    let rest = body.trim();
    let rest = rest
        .strip_suffix(job.request.instructions.trim())
        .unwrap_or(rest)
        .trim();
    let is_bare_command = matches!(job.request.trigger, Trigger::Review { .. }) && !rest.contains('\n');
    Ok(if is_bare_command {
        String::new()
    } else {
        text::cap(rest, MAX_REVIEW_BYTES)
    })
}
