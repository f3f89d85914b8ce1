//! Where an old text stands but for white space around it. Called by `edit` when the exact text is
//! not there. Never finds more than one place, and never a piece of a longer word.

use std::ops::Range;

/// The piece of `text` that `old` means, when it is clear which, and what `new` would put there
/// has the indentation of the line.
pub(super) fn but_for_surrounding_space(text: &str, old: &str, new: &str) -> Option<Range<usize>> {
    let core = old.trim();
    if core.is_empty() || core.len() == old.len() {
        return None;
    }
    let at = text.find(core)?;
    let end = at + core.len();
    if text[at + core.chars().next().map_or(1, char::len_utf8)..].contains(core) {
        return None;
    }
    let leading = &old[..old.len() - old.trim_start().len()];
    let trailing = &old[old.trim_end().len()..];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let cuts_before = !leading.is_empty() && text[..at].chars().next_back().is_some_and(is_word);
    let cuts_after = !trailing.is_empty() && text[end..].chars().next().is_some_and(is_word);
    if cuts_before || cuts_after {
        return None;
    }
    Some(start(text, at, leading, new)?..stop(text, end, trailing, new)?)
}

/// At the beginning of a line the indentation belongs to the piece. Text that would change it was
/// written by somebody who saw another file.
fn start(text: &str, at: usize, leading: &str, new: &str) -> Option<usize> {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let indentation = &text[line..at];
    if leading.is_empty() || !indentation.trim().is_empty() {
        return Some(at);
    }
    let of_new = &new[..new.len() - new.trim_start_matches([' ', '\t']).len()];
    (of_new == indentation).then_some(line)
}

/// A line end that was named must be one; it is replaced when the new text brings its own.
fn stop(text: &str, end: usize, trailing: &str, new: &str) -> Option<usize> {
    if !trailing.contains('\n') {
        return Some(end);
    }
    let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at);
    if !text[end..line_end].trim().is_empty() {
        return None;
    }
    let takes_end = new.ends_with('\n') && line_end < text.len();
    Some(line_end + usize::from(takes_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, expected: Option<&str>) {
        let found = but_for_surrounding_space(text, old, new);
        assert_eq!(found.map(|piece| &text[piece]), expected);
    }

    #[test]
    fn e1_only_space_around_the_text_is_passed_over() {
        check("a\nhello world\nb\n", " hello world", "HELLO  ", Some("hello world"));
        check("    f()\n", "  f()", "    g()", Some("    f()"));
        check("x = f(1) + 2", " f(1) ", "f(2)", Some("f(1)"));
        check("last line", "last line\n", "end\n", Some("last line"));
        check("one  \ntwo\n", "one\n\n", "1\n", Some("one  \n"));
        check("one\ntwo\n", "one\n\n", "1", Some("one"));
    }

    #[test]
    fn e1_what_is_not_clear_is_not_found() {
        check("\tf()\n", "  f()", "  g()", None);
        check("foobar\n", "foo ", "x", None);
        check("a\na b\n", " a", "x", None);
        check("foo bar\n", "foo\n", "x", None);
        check("foo\n", "foo", "x", None);
        check("foo\n", "  ", "x", None);
    }
}
