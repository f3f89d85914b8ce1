//! Names in a text: the last name of a longer expression and what stands before a name. Works on
//! bytes around a place, so that queries need to catch only the name itself. Never parses.

use std::ops::Range;

/// How far back what stands before a name is looked for: over line breaks and type arguments.
const MAX_BACK: usize = 240;

/// Where the last name of an expression or type stands: `c` of `a::b::c<T>`.
pub fn last(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut end = range.end;
    loop {
        let byte = *bytes[range.start..end].last()?;
        match byte {
            b'>' => end = before_brackets(bytes, range.start, end, b'<', b'>')?,
            b']' => end = before_brackets(bytes, range.start, end, b'[', b']')?,
            b')' => end = before_brackets(bytes, range.start, end, b'(', b')')?,
            _ if is_name_byte(byte) => break,
            _ => end -= 1,
        }
    }
    let start = name_start(bytes, range.start, end);
    text.is_char_boundary(start).then_some(start..end)
}

/// What stands before the name that starts here: `b` of `a::b::c`, `self` of `self.c`. `separators`
/// are the marks that bind a name to what owns it.
pub fn before<'t>(text: &'t str, at: usize, separators: &[&str]) -> Option<&'t str> {
    let bytes = text.as_bytes();
    let floor = at.saturating_sub(MAX_BACK);
    let end = before_space(bytes, floor, at);
    let separator = separators
        .iter()
        .find(|separator| bytes[floor..end].ends_with(separator.as_bytes()))?;
    let is_path = *separator == "\\";
    if is_path && end < at {
        return None;
    }
    let mut end = end - separator.len();
    if *separator == "." && bytes[floor..end].ends_with(b".") {
        return None;
    }
    // `a?.b`, `a!.b`, `a!!.b`, `a&.b`, `a?->b`
    while end > floor && matches!(bytes[end - 1], b'?' | b'!' | b'&') {
        end -= 1;
    }
    if !is_path {
        end = before_space(bytes, floor, end);
    }
    if bytes[floor..end].ends_with(b"super()") {
        return Some("super");
    }
    if bytes[floor..end].ends_with(b">") {
        end = before_brackets(bytes, floor, end, b'<', b'>')?;
        end = before_space(bytes, floor, end);
        if bytes[floor..end].ends_with(b"::") {
            end -= 2;
        }
    }
    let start = name_start(bytes, floor, end);
    let name = text.get(start..end)?;
    let is_name = !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name != "await";
    is_name.then_some(name)
}

/// Whether a name is written like a type or a constant.
pub fn is_capital(name: &str) -> bool {
    name.trim_start_matches('_')
        .chars()
        .next()
        .is_some_and(char::is_uppercase)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

fn name_start(bytes: &[u8], floor: usize, end: usize) -> usize {
    let length = bytes[floor..end]
        .iter()
        .rev()
        .take_while(|byte| is_name_byte(**byte))
        .count();
    end - length
}

fn before_space(bytes: &[u8], floor: usize, end: usize) -> usize {
    let length = bytes[floor..end]
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count();
    end - length
}

/// Where the bracket opens that is closed right before `end`.
fn before_brackets(bytes: &[u8], floor: usize, end: usize, open: u8, close: u8) -> Option<usize> {
    let mut depth = 0_usize;
    for at in (floor..end).rev() {
        if bytes[at] == close && !bytes[floor..at].ends_with(b"-") && !bytes[floor..at].ends_with(b"=") {
            depth += 1;
        } else if bytes[at] == open {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_last(text: &str, expected: Option<&str>) {
        let found = last(text, 0..text.len());
        assert_eq!(found.map(|range| &text[range]), expected, "{text}");
    }

    #[test]
    fn the_last_name_is_found_behind_arguments_and_marks() {
        check_last("parse", Some("parse"));
        check_last("a::b::Parser<'a, Vec<u8>>", Some("Parser"));
        check_last("Map[K, []V]", Some("Map"));
        check_last("&mut dyn Read", Some("Read"));
        check_last("Fn(u8) -> bool", Some("bool"));
        check_last("Foo?", Some("Foo"));
        check_last("größe", Some("größe"));
        check_last("", None);
        check_last("<<<>", None);
        check_last("[]", None);
    }

    #[track_caller]
    fn check_before(text: &str, expected: Option<&str>) {
        let at = text.find('#').unwrap_or(0);
        let text = text.replace('#', "");
        assert_eq!(before(&text, at, &[".", "::", "->"]), expected, "{text}");
    }

    #[test]
    fn what_stands_before_a_name_is_its_last_part() {
        check_before("self.#parse()", Some("self"));
        check_before("a::b::#c", Some("b"));
        check_before("Vec::<Vec<u8>>::#new", Some("Vec"));
        check_before("Foo<T>::#new", Some("Foo"));
        check_before("page?.#title", Some("page"));
        check_before("page!!.#title", Some("page"));
        check_before("this->#run", Some("this"));
        check_before("builder\n        .#run()", Some("builder"));
        check_before("super().#run()", Some("super"));
        check_before("lock().await.#push()", None);
        check_before("make().#run()", None);
        check_before("\"a\".#join()", None);
        check_before("0..#len()", None);
        check_before("1.#max(2)", None);
        check_before("#run()", None);
        check_before("a #run()", None);
        check_before("é.#x", Some("é"));
    }
}
