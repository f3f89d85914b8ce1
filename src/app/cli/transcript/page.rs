//! One event after another as text: a heading for each stage and turn, the model's words, each
//! call with its output cut in the middle. Never prints a control code of somebody else.

use std::io::Write;

use chrono::{DateTime, Utc};

use super::super::progress::gist::{self, Below};
use super::super::progress::{below_row, ending, in_thousands, lines, result};
use super::super::screen::canvas::{Canvas, Dress, Span};
use super::super::screen::paint::{clean, one_line};
use super::super::show;
use crate::event::{CheckRun, Event, RunEvent, Side, Usage};
use crate::text;

/// Lines shown of an output: its head, and its end, where errors stand.
const HEAD_LINES: usize = 6;
const TAIL_LINES: usize = 10;
/// Most characters of one of them.
const MAX_LINE_CHARS: usize = 240;

/// How much of outputs is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Capped,
    Whole,
}

/// A transcript as it is written.
pub(super) struct Page<W> {
    canvas: Canvas<W>,
    depth: Depth,
}

impl<W: Write> Page<W> {
    pub(super) fn new(canvas: Canvas<W>, depth: Depth) -> Self {
        Self { canvas, depth }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match &event.body {
            RunEvent::StageStarted { stage } => {
                self.canvas.line(&[]);
                self.canvas.line(&[
                    Dress::Bold.on(format!("━━ {}", stage.words())),
                    Dress::Dim.on(format!("  {}", time(event.at))),
                ]);
            }
            RunEvent::ModelReplied {
                turn,
                text,
                reasoning,
                usage,
                cost_usd,
                took_ms,
                ..
            } => {
                self.turn(Some(event.at), *turn, usage, *cost_usd, *took_ms);
                self.reply(text, reasoning);
            }
            RunEvent::ToolCalled {
                tool,
                arguments,
                output,
                ok,
                took_ms,
                ..
            } => {
                let gist = gist::of(tool, arguments, output, *ok);
                self.call(mark(gist.went_well), &gist, output, *took_ms);
            }
            RunEvent::Checked { check } => self.checked(check),
            RunEvent::PlanUpdated { steps } => {
                for step in steps {
                    let mark = if step.done { "✓" } else { "○" };
                    self.canvas
                        .line(&[Dress::None.on(format!("    {mark} {}", one_line(&step.step)))]);
                }
            }
            RunEvent::StageFinished { .. } | RunEvent::ToolStarted { .. } => {}
            other => match lines::of(other).as_slice() {
                [] => self.happened(event.at, other),
                rows => rows.iter().for_each(|row| self.canvas.line(row)),
            },
        }
        self.canvas.draw(&[]);
    }

    /// The last line.
    pub(super) fn end(&mut self, totals: &str) {
        self.canvas.line(&[]);
        self.canvas.line(&[Dress::Dim.on(totals)]);
        self.canvas.clear();
    }

    /// The heading of a turn; a record knows no times.
    pub(super) fn turn(
        &mut self,
        at: Option<DateTime<Utc>>,
        turn: u32,
        usage: &Usage,
        cost_usd: Option<f64>,
        took_ms: u64,
    ) {
        let money = cost_usd.map_or_else(|| "price unknown".to_owned(), |cost| format!("${cost:.4}"));
        let counted = if usage.reported { "" } else { " (our count)" };
        let about = format!(
            "{} tokens in · {} out{counted} · {money}",
            in_thousands(usage.input_tokens),
            in_thousands(usage.output_tokens)
        );
        self.canvas.line(&[]);
        self.canvas.line(&[
            Dress::Bold.on(format!("Turn {turn}")),
            Dress::Dim.on(format!(
                "  {}{}",
                at.map(|at| format!("{} · ", time(at))).unwrap_or_default(),
                result(&about, took_ms).trim_start()
            )),
        ]);
    }

    /// What the model said, and what it thought where everything is shown.
    pub(super) fn reply(&mut self, text: &str, reasoning: &str) {
        if self.depth == Depth::Whole {
            self.words(Dress::Dim, reasoning);
        }
        self.words(Dress::None, text);
    }

    /// A call of a record, which does not hold whether the tool was content with it.
    pub(super) fn recorded_call(&mut self, tool: &str, arguments: &str, output: &str) {
        let gist = gist::of(tool, arguments, output, true);
        self.call(Dress::Cyan.on("  ▸ "), &gist, output, 0);
    }

    /// What the program said to the model.
    pub(super) fn remark(&mut self, text: &str) {
        self.canvas.line(&[Dress::Yellow.on("  to the model:")]);
        self.output(text);
    }

    /// A heading.
    pub(super) fn heading(&mut self, text: &str) {
        self.canvas.line(&[]);
        self.canvas.line(&[Dress::Bold.on(format!("━━ {}", one_line(text)))]);
    }

    /// Something that is a line.
    pub(super) fn note(&mut self, text: &str) {
        self.canvas
            .line(&[Dress::Yellow.on(format!("  note: {}", one_line(text)))]);
    }

    fn words(&mut self, dress: Dress, text: &str) {
        for line in clean(text.trim()).lines() {
            self.canvas.line(&[dress.on(format!("  {line}"))]);
        }
    }

    fn call(&mut self, mark: Span, gist: &gist::Gist, output: &str, took_ms: u64) {
        let how = Dress::Dim.on(result(&gist.how, took_ms));
        self.canvas.line(&[mark, Dress::None.on(gist.label.as_str()), how]);
        let is_edit = |below: &Below| matches!(below, Below::Added(_) | Below::Removed(_));
        let edit: &[Below] = match gist.below.iter().any(is_edit) {
            true => &gist.below,
            false => &[],
        };
        edit.iter().for_each(|below| self.canvas.line(&below_row(below)));
        // What an edit now reads stands in its lines.
        if edit.is_empty() || self.depth == Depth::Whole {
            self.output(output);
        }
    }

    fn output(&mut self, output: &str) {
        let lines: Vec<&str> = output.lines().collect();
        let left_out = match self.depth {
            Depth::Whole => 0,
            Depth::Capped => lines.len().saturating_sub(HEAD_LINES + TAIL_LINES),
        };
        for (at, line) in lines.iter().enumerate() {
            if at == HEAD_LINES && left_out > 1 {
                let words = format!("{left_out} more lines (--full shows them)");
                self.canvas.line(&below_row(&Below::More(words)));
            }
            let is_left_out = left_out > 1 && (HEAD_LINES..HEAD_LINES + left_out).contains(&at);
            if !is_left_out {
                let line = text::cap_chars(clean(line).trim_end(), MAX_LINE_CHARS);
                self.canvas.line(&below_row(&Below::Output(line)));
            }
        }
    }

    fn checked(&mut self, check: &CheckRun) {
        let side = match check.side {
            Side::Base => "before",
            Side::Head => "after",
        };
        let mark = match check.passed() {
            true => Dress::Green.on("✓ "),
            false => Dress::Red.on("✗ "),
        };
        self.canvas.line(&[
            Dress::Dim.on(format!("  {side:6}  ")),
            mark,
            Dress::None.on(one_line(&check.command)),
            Dress::Dim.on(result(&ending(check), check.took_ms)),
        ]);
        if !check.passed() || self.depth == Depth::Whole {
            self.output(&check.output_tail);
        }
    }

    /// An event about the job rather than the work.
    fn happened(&mut self, at: DateTime<Utc>, event: &RunEvent) {
        let words = match event {
            RunEvent::Queued => "queued".to_owned(),
            RunEvent::Claimed { worker, attempt } => format!("attempt {attempt}, by {worker}"),
            RunEvent::Recovered { worker } => format!("taken back from {worker}, whose lease had ended"),
            RunEvent::Snoozed { until, reason } => format!("put off until {}: {reason}", show::time(*until)),
            RunEvent::CancelRequested { reason } => format!("asked to stop: {reason}"),
            RunEvent::RunStarted { run, model } => format!("run {run} with {model}"),
            RunEvent::Authorized { actor, permission } => format!("{actor} may ask for it ({permission})"),
            RunEvent::Solved { how, summary, files } => format!("solved: {how}, {files} files. {summary}"),
            RunEvent::EffectDone { effect, remote_id, .. } => format!("published {effect}: {remote_id}"),
            RunEvent::Finished { outcome } => {
                format!("finished: {}", serde_json::to_string(outcome).unwrap_or_default())
            }
            RunEvent::Died { reason } => format!("given up: {reason}"),
            other => other.kind().replace('_', " "),
        };
        let row: [Span; 2] = [
            Dress::Dim.on(format!("  {}  ", time(at))),
            Dress::None.on(one_line(words.trim_end())),
        ];
        self.canvas.line(&row);
    }
}

fn mark(went_well: bool) -> Span {
    match went_well {
        true => Dress::Green.on("  ✓ "),
        false => Dress::Red.on("  ✗ "),
    }
}

fn time(at: DateTime<Utc>) -> String {
    at.format("%H:%M:%S").to_string()
}
