//! Text on its way to a model, an event, a log or a comment: cut to size, freed of characters
//! that hide or deceive. Pure functions. Never parses commands and never renders pages.

use std::fmt::Write as _;

mod markdown;
mod near;

pub use markdown::{
    cap_markdown, closes_something, code_span, neutralise_markdown, plain_words, visible, without_marks,
};
pub use near::nearest;

/// GitHub refuses bodies over 65,536 characters; stay well under it.
pub const MAX_COMMENT_CHARS: usize = 60_000;

/// Cuts `text` to at most `max_bytes` (marker not counted) on a character boundary and says how
/// much is missing.
pub fn cap(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let end = floor_boundary(text, max_bytes);
    format!("{}\n[… {} more bytes are not shown]", &text[..end], text.len() - end)
}

/// Cuts the middle out of `text` so that about `max_bytes` stay: the head and, since errors stand
/// at the end of logs, twice as much tail.
pub fn cap_middle(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let head = floor_boundary(text, max_bytes / 3);
    let mut tail = text.len() - (max_bytes - max_bytes / 3);
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!(
        "{}\n[… {} bytes left out …]\n{}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

/// Cuts to at most `max_chars` characters, with an ellipsis when something was cut. For titles.
pub fn cap_chars(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    short.push('…');
    short
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Lowercase words of ASCII letters and digits joined by `-`, at most `max` bytes, cut at a word.
pub fn slug(text: &str, max: usize) -> String {
    let mut slug = String::new();
    let lower = text.to_lowercase();
    for word in lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if slug.len() + word.len() + 1 > max {
            if slug.is_empty() {
                slug.push_str(&word[..max.min(word.len())]);
            }
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(word);
    }
    slug
}

/// Whether a character is shown as nothing or changes the direction of text: zero-width and
/// bidi controls, tag characters, variation selectors, fillers, the soft hyphen.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text with every invisible character written out as `⟦U+XXXX⟧`, line ends normalised and
/// control characters other than tab and newline written out too. For text shown to a model or
/// stored for people: what was hidden is seen.
pub fn reveal(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\t' => clean.push(c),
            c if c.is_control() || is_invisible(c) => {
                let _ = write!(clean, "⟦U+{:04X}⟧", c as u32);
            }
            c => clean.push(c),
        }
    }
    clean
}

/// Terminal output as plain lines: escape sequences and other control characters are dropped and
/// a line that was rewritten with carriage returns keeps its last state.
pub fn plain_output(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => clean.truncate(line_start),
            '\u{8}' => {
                if clean.len() > line_start {
                    clean.pop();
                }
            }
            '\n' => {
                clean.push('\n');
                line_start = clean.len();
            }
            '\t' => clean.push('\t'),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => {
            for c in chars.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
        Some(']' | 'P' | '^' | '_') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        _ => {}
    }
}

/// A fence of backticks longer than any run of backticks in `content`.
pub fn code_fence(content: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in content.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat((longest + 1).max(3))
}

/// Bytes in words: `12 B`, `3.4 MiB`.
pub fn bytes_in_words(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration in words: `850 ms`, `12.3 s`, `4 min 5 s`.
pub fn duration_in_words(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_keep_character_boundaries_and_say_what_is_missing() {
        assert_eq!(cap("short", 10), "short");
        assert_eq!(cap("ééé", 3), "é\n[… 4 more bytes are not shown]");
        let long = "x".repeat(90) + "THE END";
        let cut = cap_middle(&long, 30);
        assert!(cut.starts_with("xxxxxxxxxx\n[… ") && cut.ends_with("THE END"), "{cut}");
    }

    #[test]
    fn slugs_are_words() {
        assert_eq!(slug("Parser: drops the LAST line!", 40), "parser-drops-the-last-line");
        assert_eq!(slug("Parser drops the last line", 14), "parser-drops");
        assert_eq!(slug("日本", 14), "");
    }

    #[test]
    fn hidden_characters_are_revealed() {
        assert_eq!(
            reveal("a\u{200b}b\u{e0041}\u{202e}\r\nc\u{7}"),
            "a⟦U+200B⟧b⟦U+E0041⟧⟦U+202E⟧\nc⟦U+0007⟧"
        );
    }

    #[test]
    fn terminal_output_becomes_lines() {
        assert_eq!(
            plain_output("10%\r20%\r\n\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}ok\n"),
            "20%\nred ok\n"
        );
        assert_eq!(plain_output("a\rb"), "b");
    }

    #[test]
    fn fences_outgrow_their_content() {
        assert_eq!(code_fence("no ticks"), "```");
        assert_eq!(code_fence("a ```` b"), "`````");
    }
}
