//! Text on its way to a terminal: cleaned of everything that is not text, measured in columns,
//! wrapped, cut and coloured. Never lets a control character of a model, a tool or a file through.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::text;

/// Columns between two stops of a tab.
const TAB: &str = "    ";

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app::cli) enum Paint {
    /// No control codes at all.
    Plain,
    /// Colours that every terminal knows.
    Coloured,
}

impl Paint {
    pub(in crate::app::cli) fn bold(self, text: &str) -> String {
        self.code("1", text)
    }

    pub(in crate::app::cli) fn dim(self, text: &str) -> String {
        self.code("2", text)
    }

    pub(in crate::app::cli) fn red(self, text: &str) -> String {
        self.code("31", text)
    }

    pub(in crate::app::cli) fn green(self, text: &str) -> String {
        self.code("32", text)
    }

    pub(in crate::app::cli) fn yellow(self, text: &str) -> String {
        self.code("33", text)
    }

    pub(in crate::app::cli) fn cyan(self, text: &str) -> String {
        self.code("36", text)
    }

    fn code(self, code: &str, text: &str) -> String {
        match self {
            Paint::Plain => text.to_owned(),
            Paint::Coloured if text.is_empty() => String::new(),
            Paint::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Text from outside as it may be shown: control and hidden characters are written out. The
/// selectors behind a symbol that only ask for its coloured form are dropped.
pub(in crate::app::cli) fn clean(text: &str) -> String {
    text::reveal(&text.replace(['\u{fe0e}', '\u{fe0f}'], "")).replace('\t', TAB)
}

/// As [`clean`], on one line.
pub(in crate::app::cli) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clean(&words.join(" "))
}

/// Columns of a terminal that a text takes.
pub(in crate::app::cli) fn columns(text: &str) -> usize {
    text.width()
}

/// The text cut to so many columns, with an ellipsis when something was cut.
pub(in crate::app::cli) fn fit(text: &str, max_columns: usize) -> String {
    if columns(text) <= max_columns {
        return text.to_owned();
    }
    let mut cut = head(text, max_columns.saturating_sub(1)).to_owned();
    cut.push('…');
    cut
}

/// As much of the beginning as fits.
fn head(text: &str, max_columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > max_columns {
            return &text[..at];
        }
    }
    text
}

/// A line in rows of at most so many columns, broken between words where there are any. A row's
/// text does not depend on what follows it, but for the last one.
pub(in crate::app::cli) fn wrap(line: &str, max_columns: usize) -> Vec<String> {
    let max_columns = max_columns.max(8);
    let mut rows = Vec::new();
    let mut rest = line;
    loop {
        let mut end = head(rest, max_columns).len();
        if end == rest.len() {
            rows.push(rest.to_owned());
            return rows;
        }
        // A space right behind the row ends it as well as one in it.
        let until = end + rest[end..].chars().next().map_or(0, char::len_utf8);
        let mut next = end;
        if let Some(space) = rest[..until]
            .rfind(' ')
            .filter(|space| !rest[..*space].trim().is_empty())
        {
            (end, next) = (space, space + 1);
        } else if end == 0 {
            // One character that is wider than the row.
            (end, next) = (until, until);
        }
        rows.push(rest[..end].trim_end().to_owned());
        rest = &rest[next..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u05_nothing_from_outside_is_a_control_code() {
        let hostile = "a\u{1b}[31mred\u{1b}]0;title\u{7}\u{9b}2J\r\u{8}\u{202e}b\tc";
        let shown = clean(hostile);
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(
            shown.starts_with("a⟦U+001B⟧[31mred") && shown.ends_with("⟦U+202E⟧b    c"),
            "{shown}"
        );
        assert_eq!(clean("⚠\u{fe0f} careful"), "⚠ careful");
        assert_eq!(one_line("a\n  b"), "a b");
    }

    #[track_caller]
    fn check(line: &str, max_columns: usize, rows: &[&str]) {
        assert_eq!(wrap(line, max_columns), rows);
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        check("", 10, &[""]);
        check("ten column", 10, &["ten column"]);
        check("ten column wide", 10, &["ten column", "wide"]);
        check("one two three four", 10, &["one two", "three four"]);
        check("    indented words stay", 12, &["    indented", "words stay"]);
        check("abcdefghijklmnop", 10, &["abcdefghij", "klmnop"]);
        check("see abcdefghijklmnop", 10, &["see", "abcdefghij", "klmnop"]);
        check("漢字漢字漢字", 10, &["漢字漢字漢", "字"]);
    }

    #[test]
    fn a_row_stays_as_it_is_while_its_line_grows() {
        let line = "The quick brown fox, 素早い茶色の狐, jumps over https://example.org/a/very/long/address lazily.";
        for width in [8, 13, 30] {
            let whole = wrap(line, width);
            assert!(whole.iter().all(|row| columns(row) <= width), "{whole:?}");
            for (end, _) in line.char_indices() {
                let part = wrap(&line[..end], width);
                let done = part.len() - 1;
                assert_eq!(part[..done], whole[..done], "at {end}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("longer", 5), "long…");
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(Paint::Coloured.red("x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Paint::Plain.red("x"), "x");
    }
}
