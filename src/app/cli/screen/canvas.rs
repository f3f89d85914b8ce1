//! Lines that stay and, on a terminal, a few rows at the bottom that are drawn anew. Never hides
//! the cursor and never changes the terminal's modes, so that nothing has to be put back.

use std::io::Write;

use super::paint::{Paint, columns, fit};

/// Columns where nobody says how many there are.
const USUAL_WIDTH: usize = 80;
/// Wider text is hard to read.
const MAX_WIDTH: usize = 120;

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app::cli) enum Kind {
    /// A person's terminal.
    Terminal,
    /// A pipe, a file or the log of a build: lines and nothing else.
    Lines,
}

/// A piece of a row with its colour. Kept apart, so that a row is cut by what is seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::app::cli) struct Span {
    text: String,
    dress: Dress,
}

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app::cli) enum Dress {
    None,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Dress {
    /// A piece of text that looks so.
    pub(in crate::app::cli) fn on(self, text: impl Into<String>) -> Span {
        Span {
            text: text.into(),
            dress: self,
        }
    }

    fn paint(self, paint: Paint, text: &str) -> String {
        match self {
            Dress::None => text.to_owned(),
            Dress::Bold => paint.bold(text),
            Dress::Dim => paint.dim(text),
            Dress::Red => paint.red(text),
            Dress::Green => paint.green(text),
            Dress::Yellow => paint.yellow(text),
            Dress::Cyan => paint.cyan(text),
        }
    }
}

/// One row.
pub(in crate::app::cli) type Row = Vec<Span>;

/// Lines, and the rows below them.
pub(in crate::app::cli) struct Canvas<W> {
    out: W,
    kind: Kind,
    paint: Paint,
    /// Columns of the terminal now.
    width: fn() -> Option<usize>,
    lines: String,
    /// Rows as they stand at the bottom.
    drawn: Vec<String>,
}

impl<W: Write> Canvas<W> {
    pub(in crate::app::cli) fn new(out: W, kind: Kind, paint: Paint, width: fn() -> Option<usize>) -> Self {
        Self {
            out,
            kind,
            paint,
            width,
            lines: String::new(),
            drawn: Vec::new(),
        }
    }

    pub(in crate::app::cli) fn is_terminal(&self) -> bool {
        self.kind == Kind::Terminal
    }

    /// Columns a row may take: one less than there are, so that no terminal wraps it.
    pub(in crate::app::cli) fn width(&self) -> usize {
        let width = (self.width)().unwrap_or(USUAL_WIDTH);
        width.clamp(20, MAX_WIDTH) - 1
    }

    /// A line that stays. On a terminal it is cut to its width, elsewhere it is whole.
    pub(in crate::app::cli) fn line(&mut self, row: &[Span]) {
        let line = match self.kind {
            Kind::Terminal => self.row(row),
            Kind::Lines => row
                .iter()
                .map(|span| span.dress.paint(self.paint, &span.text))
                .collect(),
        };
        self.lines.push_str(line.trim_end());
        self.lines.push('\n');
    }

    /// Writes the lines, and the rows below them on a terminal. What nobody reads any more is no
    /// reason to stop.
    pub(in crate::app::cli) fn draw(&mut self, rows: &[Row]) {
        if self.kind == Kind::Lines {
            let lines = std::mem::take(&mut self.lines);
            if !lines.is_empty() {
                drop(self.out.write_all(lines.as_bytes()).and_then(|()| self.out.flush()));
            }
            return;
        }
        let rows: Vec<String> = rows.iter().map(|row| self.row(row)).collect();
        if self.lines.is_empty() && rows == self.drawn {
            return;
        }
        let mut frame = String::new();
        if !self.drawn.is_empty() {
            frame.push('\r');
            if self.drawn.len() > 1 {
                frame.push_str(&format!("\u{1b}[{}A", self.drawn.len() - 1));
            }
            frame.push_str("\u{1b}[J");
        }
        // The screen stays in its usual mode, in which a line feed alone begins a new row.
        frame.push_str(&std::mem::take(&mut self.lines));
        frame.push_str(&rows.join("\n"));
        self.drawn = rows;
        drop(self.out.write_all(frame.as_bytes()).and_then(|()| self.out.flush()));
    }

    /// Writes the lines and takes the rows away.
    pub(in crate::app::cli) fn clear(&mut self) {
        self.draw(&[]);
    }

    fn row(&self, row: &[Span]) -> String {
        let mut left = self.width();
        let mut shown = String::new();
        for span in row {
            let text = fit(&span.text, left);
            left -= columns(&text).min(left);
            shown.push_str(&span.dress.paint(self.paint, &text));
            if left == 0 {
                break;
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canvas(kind: Kind, paint: Paint) -> Canvas<Vec<u8>> {
        Canvas::new(Vec::new(), kind, paint, || Some(21))
    }

    fn written(canvas: &Canvas<Vec<u8>>) -> &str {
        std::str::from_utf8(&canvas.out).unwrap()
    }

    #[test]
    fn rows_are_drawn_over_and_lines_stay_above_them() {
        let mut canvas = canvas(Kind::Terminal, Paint::Plain);
        canvas.draw(&[vec![Dress::None.on("one")], vec![Dress::Bold.on("status")]]);
        canvas.line(&[Dress::None.on("a line that is too long for it")]);
        canvas.draw(&[vec![Dress::None.on("two")]]);
        canvas.draw(&[vec![Dress::None.on("two")]]);
        canvas.clear();
        assert_eq!(
            written(&canvas),
            "one\nstatus\r\u{1b}[1A\u{1b}[Ja line that is too …\ntwo\r\u{1b}[J"
        );
    }

    #[test]
    fn in_a_pipe_there_are_lines_only_and_whole_ones() {
        let mut canvas = canvas(Kind::Lines, Paint::Plain);
        canvas.draw(&[vec![Dress::Red.on("status")]]);
        canvas.line(&[Dress::Red.on("a line that is too long "), Dress::Dim.on("for it")]);
        canvas.draw(&[vec![Dress::Red.on("status")]]);
        canvas.clear();
        assert_eq!(written(&canvas), "a line that is too long for it\n");
    }

    #[test]
    fn colours_do_not_count_as_columns() {
        let mut canvas = canvas(Kind::Terminal, Paint::Coloured);
        canvas.line(&[Dress::Red.on("12345678901234567890"), Dress::Dim.on("x")]);
        canvas.clear();
        assert_eq!(written(&canvas), "\u{1b}[31m12345678901234567890\u{1b}[0m\n");
    }
}
