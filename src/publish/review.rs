//! What a review becomes on the pull request: one review with comments on lines that exist in its
//! difference, everything else in its text, and nothing that was said before. Called by `plan`.
//! Never approves, never requests changes, and never reviews another head than the one that was
//! read.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::{Publisher, plan};
use crate::effect::{EffectBody, LineComment};
use crate::github::{Account, PullFile, PullFiles, Review, ReviewThread, Side};
use crate::ids::CommitSha;
use crate::job::{Job, JobError, Outcome};
use crate::phrase::review as words;
use crate::secret::REDACTED;
use crate::text;
use crate::tool::{PullFinding, PullReview};

/// Most files whose lines are looked at.
const MAX_FILES: usize = 1_000;
/// Most threads looked through for what was said before.
const MAX_THREADS: usize = 500;
/// Most reviews looked through for the same.
const MAX_REVIEWS: usize = 500;
/// Words that two comments on one file share, of all their words, to say the same.
const SAME_WORDS_PERCENT: usize = 60;
/// Most characters of one comment, and of the summary.
const MAX_COMMENT_CHARS: usize = 3_000;

/// Plans one review of a pull request whose `head` was read.
pub(super) async fn plan_review(
    publisher: &Publisher,
    job: &Job,
    review: &PullReview,
    head: &CommitSha,
) -> Result<plan::Planned, JobError> {
    let number = job
        .subject
        .number()
        .ok_or_else(|| JobError::Fail("there is no pull request to review".to_owned()))?;
    let client = publisher.client(job);
    let now = client.pull(number).await?;
    if now.head.sha != *head {
        let reason = words::head_moved(publisher.language, head.short(), now.head.sha.short());
        return Ok(plan::ending(job, Outcome::Refused { reason }));
    }
    let files = client.pull_files(number, MAX_FILES).await?;
    let threads = client.review_threads(number, MAX_THREADS).await?;
    let reviews = client.reviews(number, MAX_REVIEWS).await?;
    let sorted = Sorted::of(review, publisher, &files, &Said::by_us(publisher, &threads, &reviews));
    let body = sorted.text(publisher, review);
    let outcome = Outcome::Reviewed {
        verdict: review.counts().word().to_owned(),
        comments: u32::try_from(sorted.on_lines.len()).unwrap_or(u32::MAX),
    };
    let effect = EffectBody::SubmitReview {
        number,
        commit: head.clone(),
        body,
        comments: sorted.on_lines,
    };
    let mut planned = plan::ending(job, outcome);
    planned.effects.insert(0, plan::row(job, plan::seq::REVIEW, effect));
    Ok(planned)
}

/// The findings by where they can stand.
struct Sorted<'a> {
    on_lines: Vec<LineComment>,
    elsewhere: Vec<&'a PullFinding>,
    said_before: usize,
}

impl<'a> Sorted<'a> {
    fn of(review: &'a PullReview, publisher: &Publisher, files: &PullFiles, said: &Said<'_>) -> Self {
        let lines = Lines::of(&files.files);
        let mut sorted = Self {
            on_lines: Vec::new(),
            elsewhere: Vec::new(),
            said_before: 0,
        };
        for finding in &review.findings {
            let side = if finding.removed_line { Side::Left } else { Side::Right };
            let line = u64::from(finding.line);
            if said.has(finding) {
                sorted.said_before += 1;
            } else if lines.has(&finding.file, side, line) {
                sorted.on_lines.push(LineComment {
                    path: finding.file.clone(),
                    line,
                    side,
                    body: comment(publisher, finding),
                });
            } else {
                sorted.elsewhere.push(finding);
            }
        }
        sorted
    }

    fn text(&self, publisher: &Publisher, review: &PullReview) -> String {
        let language = publisher.language;
        let safe = |words: &str| publisher.safe_within(words, MAX_COMMENT_CHARS);
        let mut out = format!(
            "{}\n\n{}\n",
            words::verdict(language, review.counts().word()),
            safe(&review.summary)
        );
        if !self.elsewhere.is_empty() {
            let _ = writeln!(out, "\n**{}**\n", words::outside(language));
            for finding in &self.elsewhere {
                let place = text::code_span(&format!("{}:{}", text::cap_chars(&finding.file, 200), finding.line));
                let said = safe(&finding.problem).replace('\n', " ");
                let _ = writeln!(
                    out,
                    "- {place} ({}): {said}",
                    words::severity(language, finding.severity.word())
                );
            }
        }
        if self.said_before > 0 {
            let _ = writeln!(out, "\n{}", words::said_before(language, self.said_before));
        }
        let rated: Vec<_> = review
            .signals()
            .into_iter()
            .filter(|(_, rated, _)| *rated > 0)
            .collect();
        if !rated.is_empty() {
            let _ = writeln!(out, "\n**{}**\n", words::drift(language));
            for (name, rated, why) in rated {
                let _ = writeln!(out, "- {name} {rated}/3: {}", safe(why).replace('\n', " "));
            }
        }
        text::cap_markdown(&out, text::MAX_COMMENT_CHARS)
    }
}

/// What stands on a line: how bad it is, what is wrong, and the line as it should be.
fn comment(publisher: &Publisher, finding: &PullFinding) -> String {
    let problem = publisher.safe_within(&finding.problem, MAX_COMMENT_CHARS);
    // A block of code begins a line, or a blank line in it ends what should be code.
    let between = if problem.starts_with("```") { "\n\n" } else { " · " };
    let severity = words::severity(publisher.language, finding.severity.word());
    let mut out = format!("**{severity}**{between}{problem}");
    let replacement = publisher.without_secrets(&finding.replacement);
    // GitHub offers a suggestion to whoever may push; one that holds a secret, something that is
    // not seen, or more than the line, is none.
    let is_one_line = !replacement.trim().is_empty() && !replacement.contains('\n');
    // Marks that stand for a secret or for what is invisible must not get into a file.
    let is_one_line = is_one_line && !replacement.contains(REDACTED) && !replacement.contains("⟦U+");
    // Whoever takes a suggestion puts it into a commit.
    let is_one_line = is_one_line && !text::closes_something(&replacement);
    if is_one_line && replacement == finding.replacement && !finding.removed_line {
        let fence = text::code_fence(&replacement);
        let _ = write!(out, "\n\n{fence}suggestion\n{replacement}\n{fence}");
    }
    out
}

/// What our earlier reviews said, each with the file it is about.
struct Said<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Said<'a> {
    fn by_us(publisher: &Publisher, threads: &'a [ReviewThread], reviews: &'a [Review]) -> Self {
        let ours = format!("{}[bot]", publisher.app.slug);
        let is_ours = |account: Option<&Account>| account.is_some_and(|account| account.login == ours);
        let on_lines = threads.iter().filter_map(|thread| {
            let root = thread.root()?;
            is_ours(root.author.as_ref()).then_some((thread.path.as_str(), root.body.as_str()))
        });
        let lines = reviews
            .iter()
            .filter(|review| is_ours(review.user.as_ref()))
            .flat_map(|review| review.body.lines());
        // What could not stand on a line stands in the text, behind its place.
        let elsewhere = lines.filter_map(|line| {
            let place = line.strip_prefix("- ").unwrap_or(line).strip_prefix('`')?;
            let (place, said) = place.split_once('`')?;
            Some((place.rsplit_once(':')?.0, said))
        });
        Self(on_lines.chain(elsewhere).collect())
    }

    /// Whether one of them says the same on the same file, by most of its words.
    fn has(&self, finding: &PullFinding) -> bool {
        let wanted = words_of(&finding.problem);
        let on_file = self.0.iter().filter(|(path, _)| *path == finding.file);
        on_file.into_iter().any(|(_, body)| {
            let said = words_of(body);
            let shared = wanted.intersection(&said).count();
            !wanted.is_empty() && shared * 100 >= wanted.len() * SAME_WORDS_PERCENT
        })
    }
}

fn words_of(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 2 || !word.is_ascii())
        .map(str::to_lowercase)
        .collect()
}

/// The lines of a difference on which a comment can stand: those of its hunks, the unchanged ones
/// around a change included.
struct Lines<'a>(HashSet<(&'a str, Side, u64)>);

impl<'a> Lines<'a> {
    fn of(files: &'a [PullFile]) -> Self {
        let mut lines = HashSet::new();
        for file in files {
            let (mut old, mut new) = (0, 0);
            for line in file.patch.as_deref().unwrap_or_default().lines() {
                if let Some((old_start, new_start)) = hunk(line) {
                    (old, new) = (old_start, new_start);
                    continue;
                }
                match line.as_bytes().first() {
                    Some(b'-') => {
                        lines.insert((file.path.as_str(), Side::Left, old));
                        old += 1;
                    }
                    Some(b'+') => {
                        lines.insert((file.path.as_str(), Side::Right, new));
                        new += 1;
                    }
                    Some(b'\\') => {}
                    _ => {
                        lines.insert((file.path.as_str(), Side::Left, old));
                        lines.insert((file.path.as_str(), Side::Right, new));
                        (old, new) = (old + 1, new + 1);
                    }
                }
            }
        }
        Self(lines)
    }

    fn has(&self, path: &'a str, side: Side, line: u64) -> bool {
        self.0.contains(&(path, side, line))
    }
}

/// First lines of a hunk, old and new, from its head `@@ -1,2 +3,4 @@`.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let ranges = line.strip_prefix("@@ -")?;
    let (old, rest) = ranges.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let first = |range: &str| range.split(',').next()?.parse().ok();
    Some((first(old)?, first(new)?))
}

/// The text of a review whose comments GitHub refused to put on their lines.
pub(super) fn with_comments_below(body: &str, comments: &[LineComment]) -> String {
    let mut out = body.to_owned();
    for comment in comments {
        let place = text::code_span(&format!("{}:{}", text::cap_chars(&comment.path, 200), comment.line));
        let _ = write!(out, "\n\n{place}: {}", comment.body);
    }
    text::cap_markdown(&out, text::MAX_COMMENT_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::github::ChangeKind;

    #[test]
    fn comments_stand_on_lines_of_hunks_and_nowhere_else() {
        let file = PullFile {
            path: "a.rs".to_owned(),
            previous_path: None,
            kind: ChangeKind::Modified,
            additions: 2,
            deletions: 1,
            patch: Some(
                "@@ -3,3 +3,4 @@ fn a()\n x\n-y\n+z\n+w\n v\n\\ No newline at end of file\n@@ -9 +11 @@\n-q\n+r"
                    .to_owned(),
            ),
        };
        let files = [file];
        let lines = Lines::of(&files);
        let on = |side, numbers: &[u64]| -> Vec<u64> {
            numbers
                .iter()
                .copied()
                .filter(|line| lines.has("a.rs", side, *line))
                .collect()
        };
        let all: Vec<u64> = (0..20).collect();
        assert_eq!(on(Side::Right, &all), [3, 4, 5, 6, 11]);
        assert_eq!(on(Side::Left, &all), [3, 4, 5, 9]);
        assert!(!lines.has("b.rs", Side::Right, 3));
    }
}
