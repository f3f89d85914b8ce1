//! A run as it goes on, for people: the model's words as they come, a line for each tool call with
//! what came of it, the plan, and a line at the bottom with turns, tokens, money and time.
//! Never shows a whole output: that is in the events.

use std::io::Write;
use std::time::{Duration, Instant};

use super::screen::Reasoning;
use super::screen::canvas::{Canvas, Dress, Row, Span};
use super::screen::paint::{clean, columns, fit, one_line};
use crate::event::{CheckRun, Event, PlanStep, RunEvent, Side, Stage, Totals};
use crate::secret::Redactor;
use crate::text;
use gist::{Below, Gist};
use words::Words;

pub(super) mod gist;
pub(super) mod lines;
mod words;

/// A call in the log of a build is named when it has begun as long ago.
const SLOW: Duration = Duration::from_secs(5);
/// What took less needs no figure.
const INSTANT_MS: u64 = 100;
/// Movements of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// What a run may take, as far as its status line says so.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    /// Most turns; 0 is unknown.
    pub(super) max_turns: u32,
}

/// What the model or a tool is doing right now.
enum Doing {
    /// Nothing that the status line does not say.
    Stage,
    /// The model was asked.
    Waiting,
    /// A tool call runs.
    Call { label: String, since: Instant, told: bool },
}

/// Shows one run.
pub(super) struct Telling<W> {
    canvas: Canvas<W>,
    limits: Limits,
    words: Words,
    doing: Doing,
    stage: Option<Stage>,
    totals: Totals,
    plan: Vec<PlanStep>,
    began: Instant,
    moves: usize,
}

impl<W: Write> Telling<W> {
    pub(super) fn new(canvas: Canvas<W>, reasoning: Reasoning, limits: Limits, redactor: Redactor) -> Self {
        Self {
            canvas,
            limits,
            words: Words::new(reasoning, redactor),
            doing: Doing::Stage,
            stage: None,
            totals: Totals::default(),
            plan: Vec::new(),
            began: Instant::now(),
            moves: 0,
        }
    }

    /// A part of a reply.
    pub(super) fn text(&mut self, text: &str) {
        self.words.text(&mut self.canvas, text);
    }

    /// A part of what the model thinks.
    pub(super) fn reasoning(&mut self, text: &str) {
        self.words.reasoning(&mut self.canvas, text);
    }

    /// The reply broke off.
    pub(super) fn restarted(&mut self) {
        self.words.restarted(&mut self.canvas);
    }

    /// A line of the program itself.
    pub(super) fn line(&mut self, line: &str) {
        self.words.end(&mut self.canvas);
        for line in clean(line).lines() {
            self.canvas.line(&[Dress::None.on(line)]);
        }
    }

    /// Something happened.
    pub(super) fn event(&mut self, event: &Event) {
        self.totals.add(&event.body);
        match &event.body {
            RunEvent::StageStarted { stage } => self.stage_started(*stage),
            RunEvent::ModelReplied { text, reasoning, .. } => {
                self.words.replied(&mut self.canvas, text, reasoning);
                self.doing = Doing::Stage;
            }
            RunEvent::ToolStarted { tool, arguments, .. } => {
                self.doing = Doing::Call {
                    label: gist::label(tool, arguments),
                    since: Instant::now(),
                    told: false,
                };
            }
            RunEvent::ToolCalled {
                tool,
                arguments,
                output,
                ok,
                took_ms,
                ..
            } => {
                self.doing = Doing::Waiting;
                // A plan that changed has been shown as such.
                if !(*ok && gist::is_plan(tool)) {
                    self.call(&gist::of(tool, arguments, output, *ok), *took_ms);
                }
            }
            RunEvent::PlanUpdated { steps } => self.plan_updated(steps),
            RunEvent::Checked { check } => self.checked(check),
            other => {
                for row in lines::of(other) {
                    self.canvas.line(&row);
                }
            }
        }
    }

    fn stage_started(&mut self, stage: Stage) {
        self.stage = Some(stage);
        self.doing = match stage {
            Stage::Solve => Doing::Waiting,
            _ => Doing::Stage,
        };
        if !self.canvas.is_terminal() {
            self.canvas.line(&[Dress::None.on(format!("… {}", stage.words()))]);
        }
    }

    fn call(&mut self, gist: &Gist, took_ms: u64) {
        let mark = if gist.went_well {
            Dress::Green.on("  ✓ ")
        } else {
            Dress::Red.on("  ✗ ")
        };
        let how = result(&gist.how, took_ms);
        // What came of it is always seen; what it was for is cut.
        let room = if self.canvas.is_terminal() {
            let room = self.canvas.width().saturating_sub(4 + columns(&how));
            room.max(self.canvas.width() / 2)
        } else {
            gist::MAX_CHARS
        };
        let label = fit(&gist.label, room);
        self.canvas.line(&[mark, Dress::None.on(label), Dress::Dim.on(how)]);
        for below in &gist.below {
            self.canvas.line(&below_row(below));
        }
    }

    fn plan_updated(&mut self, steps: &[PlanStep]) {
        if self.plan == steps {
            return;
        }
        self.plan = steps.to_vec();
        let done = steps.iter().filter(|step| step.done).count();
        self.canvas.line(&[
            Dress::Bold.on("  Plan"),
            Dress::Dim.on(format!("  {done} of {} done", steps.len())),
        ]);
        for step in steps {
            let words = one_line(&step.step);
            self.canvas.line(&match step.done {
                true => [Dress::Green.on("    ✓ "), Dress::Dim.on(words)],
                false => [Dress::None.on("    ○ "), Dress::None.on(words)],
            });
        }
    }

    fn checked(&mut self, check: &CheckRun) {
        let side = match check.side {
            Side::Base => "before",
            Side::Head => "after",
        };
        let mark = if check.passed() {
            Dress::Green.on("✓ ")
        } else {
            Dress::Red.on("✗ ")
        };
        let how = result(&ending(check), check.took_ms);
        self.canvas.line(&[
            Dress::Dim.on(format!("  {side:6}  ")),
            mark,
            Dress::None.on(text::cap_chars(&one_line(&check.command), gist::MAX_CHARS)),
            Dress::Dim.on(how),
        ]);
        if !check.passed() {
            for line in gist::last_lines(&check.output_tail) {
                self.canvas.line(&below_row(&Below::Output(line)));
            }
        }
    }

    /// Shows what was told, and the rows at the bottom.
    pub(super) fn draw(&mut self) {
        if self.canvas.is_terminal() {
            self.moves += 1;
            let rows = self.bottom();
            self.canvas.draw(&rows);
            return;
        }
        if let Doing::Call { label, since, told } = &mut self.doing
            && !*told
            && since.elapsed() > SLOW
        {
            *told = true;
            let row = [Dress::None.on(format!("  … {label} is running"))];
            self.canvas.line(&row);
        }
        self.canvas.draw(&[]);
    }

    /// Shows what was told, without the rows at the bottom.
    pub(super) fn clear(&mut self) {
        self.words.end(&mut self.canvas);
        self.canvas.clear();
    }

    fn bottom(&self) -> Vec<Row> {
        let mut rows = self.words.row(self.canvas.width()).into_iter().collect::<Vec<Row>>();
        if let Doing::Call { label, since, .. } = &self.doing {
            let time = format!("  {}", clock(since.elapsed()));
            let room = self.canvas.width().saturating_sub(4 + columns(&time));
            rows.push(vec![
                Dress::Cyan.on("  ▸ "),
                Dress::None.on(fit(label, room)),
                Dress::Dim.on(time),
            ]);
        }
        rows.push(self.status());
        rows
    }

    fn status(&self) -> Row {
        let spinner = SPINNER[self.moves / 2 % SPINNER.len()];
        let what = match (&self.doing, self.stage) {
            (_, None) => "Begin".to_owned(),
            (Doing::Waiting, _) if self.words.is_empty() => "Wait for the model".to_owned(),
            (_, Some(stage)) => stage.words().to_owned(),
        };
        let mut parts = Vec::new();
        if self.totals.turns > 0 || self.stage == Some(Stage::Solve) {
            // The turn that is asked for, until its reply is there.
            let turn = self.totals.turns + u32::from(matches!(self.doing, Doing::Waiting));
            parts.push(match self.limits.max_turns {
                0 => format!("turn {turn}"),
                most => format!("turn {turn}/{most}"),
            });
            parts.push(format!(
                "{} tokens",
                in_thousands(self.totals.input_tokens + self.totals.output_tokens)
            ));
            if !self.totals.price_unknown {
                parts.push(format!("${:.2}", self.totals.cost_usd));
            }
        }
        parts.push(clock(self.began.elapsed()));
        vec![
            Dress::Cyan.on(format!("{spinner} ")),
            Dress::None.on(what),
            Dress::Dim.on(format!(" · {}", parts.join(" · "))),
        ]
    }
}

pub(super) fn below_row(below: &Below) -> Vec<Span> {
    match below {
        Below::Added(line) => vec![Dress::Green.on(format!("      + {line}"))],
        Below::Removed(line) => vec![Dress::Red.on(format!("      - {line}"))],
        Below::Same(line) => vec![Dress::Dim.on(format!("        {line}"))],
        Below::Output(line) => vec![Dress::Dim.on(format!("      │ {line}"))],
        Below::More(words) => vec![Dress::Dim.on(format!("      … {words}"))],
    }
}

/// How a check ended, in words.
pub(super) fn ending(check: &CheckRun) -> String {
    match (&check.killed, check.exit_code) {
        (Some(killed), _) => one_line(killed),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => "no exit code".to_owned(),
    }
}

/// What came of something and how long it took, behind what it was.
pub(super) fn result(how: &str, took_ms: u64) -> String {
    let took = text::duration_in_words(Duration::from_millis(took_ms));
    match (how, took_ms) {
        ("", ..INSTANT_MS) => String::new(),
        ("", _) => format!("  {took}"),
        (how, ..INSTANT_MS) => format!("  {how}"),
        (how, _) => format!("  {how} · {took}"),
    }
}

/// A duration that counts up, without parts that flicker.
fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

/// A number as it is read at a glance: `812`, `12.3k`, `1.2M`.
pub(super) fn in_thousands(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{:.1}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests;
