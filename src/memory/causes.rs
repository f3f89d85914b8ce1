//! Trees of causes: hypotheses that explain others, what speaks for and against each, and how far
//! the best is ahead. One tree for each issue, pull request or task, so that a later run on it sees
//! what an earlier one found. Never decides which hypothesis is right.

use std::fmt::Write as _;

use super::{Memory, MemoryError, one_line};
use crate::note::{Cause, CauseStatus, Evidence};
use crate::text;

/// Most hypotheses of a tree.
pub const MAX_NODES: usize = 200;

/// Most trees of a repository; the one that was not written for the longest time goes.
pub const MAX_TREES: usize = 20;

/// Most pieces of evidence of a hypothesis.
pub const MAX_EVIDENCE: usize = 20;

/// The strongest evidence, for and against.
pub const MAX_WEIGHT: i32 = 5;

/// Most characters of a hypothesis and of a piece of evidence.
const MAX_CHARS: usize = 500;

impl Memory {
    /// The hypotheses of a tree: the run's own, or another one of the repository.
    ///
    /// # Errors
    /// Of the database.
    pub async fn causes(&self, tree: Option<&str>) -> Result<Vec<Cause>, MemoryError> {
        let mut tx = self.store.begin().await?;
        let tree = tree.unwrap_or(&self.keeper.subject);
        Ok(tx.causes(&self.keeper.repository, tree).await?)
    }

    /// The trees of the repository with their sizes.
    ///
    /// # Errors
    /// Of the database.
    pub async fn trees(&self) -> Result<Vec<(String, u32)>, MemoryError> {
        let mut tx = self.store.begin().await?;
        Ok(tx.cause_trees(&self.keeper.repository).await?)
    }

    /// Adds a hypothesis to the run's own tree; returns its number.
    ///
    /// # Errors
    /// [`MemoryError::Refused`] when there is no such parent or the tree is full.
    pub async fn suppose(&self, parent: Option<u32>, hypothesis: &str) -> Result<u32, MemoryError> {
        let hypothesis = self.words("hypothesis", hypothesis)?;
        let (scope, tree) = (&self.keeper.repository, &self.keeper.subject);
        let mut tx = self.begin_writing().await?;
        let causes = tx.causes(scope, tree).await?;
        if let Some(parent) = parent {
            find(&causes, parent)?;
        }
        if causes.len() >= MAX_NODES {
            return Err(MemoryError::Refused(format!(
                "the tree has {MAX_NODES} hypotheses already; judge those before you add more"
            )));
        }
        let node = causes.last().map_or(1, |last| last.node + 1);
        let cause = Cause {
            node,
            parent,
            hypothesis,
            status: CauseStatus::Open,
            evidence: Vec::new(),
            at: self.clock.now(),
        };
        tx.write_cause(scope, tree, &cause).await?;
        for (old, _) in tx.cause_trees(scope).await?.into_iter().skip(MAX_TREES) {
            tx.forget_causes(scope, &old).await?;
        }
        tx.commit().await?;
        Ok(node)
    }

    /// Says what is thought of a hypothesis of the run's own tree, and why.
    ///
    /// # Errors
    /// [`MemoryError::Refused`] when there is no such hypothesis or no reason.
    pub async fn judge(
        &self,
        node: u32,
        status: CauseStatus,
        weight: i32,
        evidence: &str,
    ) -> Result<Cause, MemoryError> {
        let words = self.words("evidence", evidence)?;
        let (scope, tree) = (&self.keeper.repository, &self.keeper.subject);
        let mut tx = self.begin_writing().await?;
        let mut cause = find(&tx.causes(scope, tree).await?, node)?.clone();
        if cause.evidence.len() >= MAX_EVIDENCE {
            return Err(MemoryError::Refused(format!(
                "hypothesis {node} has {MAX_EVIDENCE} pieces of evidence; add a narrower one below it"
            )));
        }
        cause.status = status;
        cause.at = self.clock.now();
        cause.evidence.push(Evidence {
            weight: weight.clamp(-MAX_WEIGHT, MAX_WEIGHT),
            words,
            by: self.keeper.by.clone(),
        });
        tx.write_cause(scope, tree, &cause).await?;
        tx.commit().await?;
        Ok(cause)
    }

    fn words(&self, what: &str, words: &str) -> Result<String, MemoryError> {
        let words = text::cap_chars(&one_line(&self.redactor.redact(words)), MAX_CHARS);
        if words.is_empty() {
            return Err(MemoryError::Refused(format!("say the {what} in words")));
        }
        Ok(words)
    }
}

fn find(causes: &[Cause], node: u32) -> Result<&Cause, MemoryError> {
    let found = causes.iter().find(|cause| cause.node == node);
    found.ok_or_else(|| MemoryError::Refused(format!("there is no hypothesis {node} in this tree; `list` shows them")))
}

/// How far the best explanation is ahead of the next one: the difference of their scores, where a
/// score is the sum of the weights of the evidence. Compared are hypotheses that are not refuted and
/// that nothing below them explains further. Without a rival, the best is ahead by its own score.
pub fn margin(causes: &[Cause]) -> Option<(&Cause, Option<&Cause>, i32)> {
    let stands = |cause: &&Cause| cause.status != CauseStatus::Refuted;
    let is_last = |cause: &&Cause| {
        let below = causes.iter().filter(|other| other.parent == Some(cause.node));
        below.filter(stands).count() == 0
    };
    let mut rivals: Vec<&Cause> = causes.iter().filter(stands).filter(is_last).collect();
    // What is confirmed goes first among equals, then what is older.
    rivals.sort_by_key(|cause| (-cause.score(), cause.status != CauseStatus::Confirmed, cause.node));
    let best = *rivals.first()?;
    let next = rivals.get(1).copied();
    Some((best, next, best.score() - next.map_or(0, Cause::score)))
}

/// The path from the root to a hypothesis, root first. Empty when there is none.
pub fn trace(causes: &[Cause], node: u32) -> Vec<&Cause> {
    let mut path = Vec::new();
    let mut at = Some(node);
    // A parent has a smaller number, so this ends; a stored loop would too.
    while let Some(cause) = at.and_then(|node| causes.iter().find(|cause| cause.node == node)) {
        path.push(cause);
        at = cause.parent.filter(|parent| *parent < cause.node);
    }
    path.reverse();
    path
}

/// A tree as indented lines.
pub fn render(causes: &[Cause]) -> String {
    let mut out = String::new();
    let mut open: Vec<(&Cause, usize)> = Vec::new();
    let mut roots: Vec<&Cause> = causes.iter().filter(|cause| cause.parent.is_none()).collect();
    roots.reverse();
    open.extend(roots.into_iter().map(|root| (root, 0)));
    while let Some((cause, depth)) = open.pop() {
        let indent = "  ".repeat(depth.min(20));
        let _ = writeln!(out, "{indent}{}", in_line(cause));
        let below = causes.iter().rev().filter(|other| other.parent == Some(cause.node));
        open.extend(below.map(|child| (child, depth + 1)));
    }
    out
}

/// A hypothesis in one line.
pub(super) fn in_line(cause: &Cause) -> String {
    format!(
        "{}. [{}, {:+}] {}",
        cause.node,
        cause.status,
        cause.score(),
        cause.hypothesis
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(nodes: &[(u32, u32, CauseStatus, &[i32])]) -> Vec<Cause> {
        let evidence = |weight: &i32| Evidence {
            weight: *weight,
            words: "seen".to_owned(),
            by: "job 1".to_owned(),
        };
        let causes = nodes.iter().map(|(node, parent, status, weights)| Cause {
            node: *node,
            parent: (*parent > 0).then_some(*parent),
            hypothesis: format!("h{node}"),
            status: *status,
            evidence: weights.iter().map(evidence).collect(),
            at: chrono::DateTime::UNIX_EPOCH,
        });
        causes.collect()
    }

    #[test]
    fn the_margin_is_the_lead_of_the_best_explanation() {
        use CauseStatus::{Confirmed, Open, Refuted};
        for (nodes, expected) in [
            (&[][..], None),
            (&[(1, 0, Refuted, &[-5][..])][..], None),
            (&[(1, 0, Open, &[2, 1][..])][..], Some((1, None, 3))),
            (
                &[(1, 0, Open, &[2][..]), (2, 0, Open, &[5][..])][..],
                Some((2, Some(1), 3)),
            ),
            // What is explained further is no rival of its own explanation.
            (
                &[(1, 0, Open, &[9][..]), (2, 1, Open, &[1][..])][..],
                Some((2, None, 1)),
            ),
            (
                &[(1, 0, Open, &[4][..]), (2, 1, Refuted, &[-1][..])][..],
                Some((1, None, 4)),
            ),
            (
                &[(1, 0, Open, &[][..]), (2, 0, Confirmed, &[][..])][..],
                Some((2, Some(1), 0)),
            ),
        ] {
            let causes = tree(nodes);
            let found = margin(&causes).map(|(best, next, lead)| (best.node, next.map(|next| next.node), lead));
            assert_eq!(found, expected, "{nodes:?}");
        }
    }

    #[test]
    fn a_tree_is_shown_and_traced_from_its_root() {
        use CauseStatus::{Open, Refuted};
        let causes = tree(&[
            (1, 0, Open, &[]),
            (2, 1, Open, &[3]),
            (3, 0, Refuted, &[-2]),
            (4, 2, Open, &[]),
        ]);
        let shown = "1. [open, +0] h1\n  2. [open, +3] h2\n    4. [open, +0] h4\n3. [refuted, -2] h3\n";
        assert_eq!(render(&causes), shown);
        let path: Vec<u32> = trace(&causes, 4).iter().map(|cause| cause.node).collect();
        assert_eq!(path, [1, 2, 4]);
        assert!(trace(&causes, 9).is_empty());
    }
}
