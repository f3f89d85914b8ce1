//! The model's words while they arrive: wrapped as they grow, whole rows kept, the last one drawn
//! at the bottom. What the model thinks is one row that goes again, unless it is to be shown.
//! Never keeps more than one row of a line.

use std::io::Write;
use std::time::{Duration, Instant};

use super::super::screen::Reasoning;
use super::super::screen::canvas::{Canvas, Dress, Row};
use super::super::screen::paint::{clean, columns, wrap};
use crate::secret::Redactor;
use crate::text;

/// What stands before each row.
const INDENT: &str = "  ";
/// Thinking that took as long is mentioned afterwards.
const LONG: Duration = Duration::from_secs(3);
/// Most bytes of folded reasoning that are kept; one row is shown of them.
const MAX_FOLDED: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Says,
    Thinks,
}

/// The words of the reply that arrives.
pub(super) struct Words {
    reasoning: Reasoning,
    redactor: Redactor,
    voice: Voice,
    /// What is not shown as a whole row yet, clean.
    rest: String,
    /// Whether an empty row has to come before the next one.
    gap: bool,
    /// Whether text of this reply has been shown, and reasoning.
    said: bool,
    thought: bool,
    thinks_since: Option<Instant>,
}

impl Words {
    pub(super) fn new(reasoning: Reasoning, redactor: Redactor) -> Self {
        Self {
            reasoning,
            redactor,
            voice: Voice::Says,
            rest: String::new(),
            gap: true,
            said: false,
            thought: false,
            thinks_since: None,
        }
    }

    /// Whether nothing of a reply has arrived.
    pub(super) fn is_empty(&self) -> bool {
        !self.said && !self.thought
    }

    /// A part of what is said.
    pub(super) fn text<W: Write>(&mut self, canvas: &mut Canvas<W>, text: &str) {
        // In a pipe the reply comes whole.
        if !canvas.is_terminal() || text.is_empty() {
            return;
        }
        self.end_thinking(canvas);
        self.said = true;
        self.add(canvas, Voice::Says, text);
    }

    /// A part of what is thought.
    pub(super) fn reasoning<W: Write>(&mut self, canvas: &mut Canvas<W>, text: &str) {
        if !canvas.is_terminal() || text.is_empty() {
            return;
        }
        self.thought = true;
        self.thinks_since.get_or_insert_with(Instant::now);
        if self.reasoning == Reasoning::Shown {
            self.add(canvas, Voice::Thinks, text);
            return;
        }
        if self.voice == Voice::Says {
            self.flush(canvas);
            self.voice = Voice::Thinks;
        }
        self.rest.push_str(&clean(text).replace('\n', " "));
        let too_much = self.rest.len().saturating_sub(MAX_FOLDED);
        let cut = (too_much..self.rest.len()).find(|at| self.rest.is_char_boundary(*at));
        self.rest.drain(..cut.unwrap_or(0));
    }

    /// The reply begins anew. Rows that stay cannot be taken back, so that it is said.
    pub(super) fn restarted<W: Write>(&mut self, canvas: &mut Canvas<W>) {
        if self.is_empty() {
            return;
        }
        self.rest.clear();
        self.thinks_since = None;
        canvas.line(&[Dress::Dim.on(format!("{INDENT}[the reply broke off and begins anew]"))]);
        self.gap = true;
        (self.said, self.thought) = (false, false);
    }

    /// The whole reply, of which parts may have been shown.
    pub(super) fn replied<W: Write>(&mut self, canvas: &mut Canvas<W>, text: &str, reasoning: &str) {
        self.end_thinking(canvas);
        self.flush(canvas);
        if !self.thought && self.reasoning == Reasoning::Shown && !reasoning.trim().is_empty() {
            self.whole(canvas, Voice::Thinks, reasoning);
        }
        if !self.said && !text.trim().is_empty() {
            self.whole(canvas, Voice::Says, text);
        }
        (self.said, self.thought, self.gap) = (false, false, true);
    }

    /// Shows what has come of an unfinished line.
    pub(super) fn end<W: Write>(&mut self, canvas: &mut Canvas<W>) {
        if self.voice == Voice::Says || self.reasoning == Reasoning::Shown {
            self.flush(canvas);
        }
    }

    /// The row that is still growing.
    pub(super) fn row(&self, width: usize) -> Option<Row> {
        if self.rest.trim().is_empty() {
            return None;
        }
        if self.voice == Voice::Says || self.reasoning == Reasoning::Shown {
            return Some(vec![self.dress().on(format!("{INDENT}{}", self.rest))]);
        }
        let mark = format!("{INDENT}thinks: ");
        let rows = wrap(self.rest.trim(), width.saturating_sub(columns(&mark)));
        Some(vec![Dress::Dim.on(mark), Dress::Dim.on(rows.last()?)])
    }

    fn dress(&self) -> Dress {
        match self.voice {
            Voice::Says => Dress::None,
            Voice::Thinks => Dress::Dim,
        }
    }

    fn whole<W: Write>(&mut self, canvas: &mut Canvas<W>, voice: Voice, text: &str) {
        self.add(canvas, voice, text);
        self.flush(canvas);
    }

    fn add<W: Write>(&mut self, canvas: &mut Canvas<W>, voice: Voice, text: &str) {
        if self.voice != voice {
            self.flush(canvas);
            self.voice = voice;
            self.gap = true;
        }
        // A line end that is cut in two would show its first half.
        self.rest.push_str(&clean(text.strip_suffix('\r').unwrap_or(text)));
        self.rest = self.redactor.redact(&self.rest);
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.keep(canvas, line.trim_end());
        }
        if canvas.is_terminal() {
            let mut rows = wrap(&self.rest, canvas.width() - INDENT.len());
            let last = rows.pop().unwrap_or_default();
            rows.iter().for_each(|row| self.keep_row(canvas, row));
            self.rest = last;
        }
    }

    fn flush<W: Write>(&mut self, canvas: &mut Canvas<W>) {
        let rest = std::mem::take(&mut self.rest);
        if !rest.trim().is_empty() {
            self.keep(canvas, rest.trim_end());
        }
    }

    fn keep<W: Write>(&mut self, canvas: &mut Canvas<W>, line: &str) {
        if !canvas.is_terminal() {
            return self.keep_row(canvas, line);
        }
        for row in wrap(line, canvas.width() - INDENT.len()) {
            self.keep_row(canvas, &row);
        }
    }

    fn keep_row<W: Write>(&mut self, canvas: &mut Canvas<W>, row: &str) {
        if row.trim().is_empty() {
            self.gap = true;
            return;
        }
        if std::mem::take(&mut self.gap) {
            canvas.line(&[]);
        }
        canvas.line(&[self.dress().on(format!("{INDENT}{row}"))]);
    }

    fn end_thinking<W: Write>(&mut self, canvas: &mut Canvas<W>) {
        let Some(since) = self.thinks_since.take() else { return };
        if self.reasoning == Reasoning::Shown {
            return;
        }
        self.rest.clear();
        self.voice = Voice::Says;
        if since.elapsed() >= LONG {
            let took = text::duration_in_words(since.elapsed());
            canvas.line(&[Dress::Dim.on(format!("{INDENT}thought for {took}"))]);
        }
    }
}
