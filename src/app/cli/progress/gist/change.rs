//! The lines of an edit: what went, what came, and how many. Never more rows than a person takes
//! in while the run goes on.

use super::super::super::screen::paint::clean;
use crate::text;

/// Most rows shown of one edit.
pub(super) const MAX_BELOW: usize = 12;
/// Longest row, in characters.
const MAX_ROW_CHARS: usize = 200;
/// Comparing is the product of both sides; larger ones are shown as replaced whole.
const MAX_COMPARED: usize = 400 * 400;

/// A row below a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::app::cli) enum Below {
    Added(String),
    Removed(String),
    /// A line around a change.
    Same(String),
    /// Output of a command.
    Output(String),
    /// What is not shown.
    More(String),
}

/// A change of lines.
#[derive(Debug, Default)]
pub(super) struct LineChange {
    pub(super) added: usize,
    pub(super) removed: usize,
    rows: Vec<Below>,
}

impl LineChange {
    fn push(&mut self, row: Below) {
        match row {
            Below::Added(_) => self.added += 1,
            Below::Removed(_) => self.removed += 1,
            _ => {}
        }
        self.rows.push(row);
    }

    /// The rows, as many as fit: lines around the change only where there is room for them.
    pub(super) fn shown(self) -> Vec<Below> {
        let mut rows = self.rows;
        if rows.len() > MAX_BELOW {
            rows.retain(|row| !matches!(row, Below::Same(_)));
        }
        if rows.len() > MAX_BELOW {
            let more = rows.len() - (MAX_BELOW - 1);
            rows.truncate(MAX_BELOW - 1);
            rows.push(Below::More(format!("{more} more lines")));
        }
        rows
    }
}

/// What turns one text into another, with one line around each change.
pub(super) fn between(old: &str, new: &str) -> LineChange {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same_head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[same_head..], &new[same_head..]);
    let same_tail = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (old_mid, new_mid) = (
        &old_rest[..old_rest.len() - same_tail],
        &new_rest[..new_rest.len() - same_tail],
    );
    let mut change = LineChange::default();
    if old_mid.is_empty() && new_mid.is_empty() {
        return change;
    }
    if same_head > 0 {
        change.push(Below::Same(row(old[same_head - 1])));
    }
    compare(old_mid, new_mid, &mut change);
    if same_tail > 0 {
        change.push(Below::Same(row(old_rest[old_rest.len() - same_tail])));
    }
    change
}

/// The shortest way from one to the other, by the longest common subsequence.
fn compare(old: &[&str], new: &[&str], change: &mut LineChange) {
    let width = new.len() + 1;
    let mut common = Vec::new();
    let is_small = old.len().saturating_mul(new.len()) <= MAX_COMPARED;
    if is_small {
        common = vec![0_u32; (old.len() + 1) * width];
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                common[i * width + j] = if old[i] == new[j] {
                    common[(i + 1) * width + j + 1] + 1
                } else {
                    common[(i + 1) * width + j].max(common[i * width + j + 1])
                };
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if is_small && i < old.len() && j < new.len() && old[i] == new[j] {
            change.push(Below::Same(row(old[i])));
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let removes =
            i < old.len() && (!is_small || j == new.len() || common[(i + 1) * width + j] >= common[i * width + j + 1]);
        if removes {
            change.push(Below::Removed(row(old[i])));
            i += 1;
        } else {
            change.push(Below::Added(row(new[j])));
            j += 1;
        }
    }
}

/// The lines of a patch, in the notation of `diff` or of models.
pub(super) fn of_patch(patch: &str) -> LineChange {
    let mut change = LineChange::default();
    for line in patch.lines() {
        if line.starts_with("+++ ") || line.starts_with("--- ") {
            continue;
        }
        if let Some(line) = line.strip_prefix('+') {
            change.push(Below::Added(row(line)));
        } else if let Some(line) = line.strip_prefix('-') {
            change.push(Below::Removed(row(line)));
        } else if line.starts_with("*** ") && !line.ends_with(" Patch") && !line.contains("End of File") {
            change.push(Below::More(row(line.trim_start_matches("*** "))));
        }
    }
    change
}

fn row(line: &str) -> String {
    text::cap_chars(clean(line).trim_end(), MAX_ROW_CHARS)
}
