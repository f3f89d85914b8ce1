//! Names in a text: the last name of a longer expression and what stands before a name. Works on
//! bytes around a place, so that queries need to catch only the name itself. Never parses.

use std::borrow::Cow;
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
        return text.get(end - 7..end - 2);
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

/// What stands before the name that starts here, also where that is no name: `make()` for what a call
/// gives, `parser.make()` and `?.make()` where the call has a receiver of its own, `?` for the rest.
pub fn receiver<'t>(text: &'t str, at: usize, separators: &[&str]) -> Option<Cow<'t, str>> {
    let bytes = text.as_bytes();
    let floor = at.saturating_sub(MAX_BACK);
    if let Some(name) = before(text, at, separators) {
        return Some(qualified(text, name, separators));
    }
    let end = before_space(bytes, floor, at);
    let separator = separators
        .iter()
        .find(|separator| bytes[floor..end].ends_with(separator.as_bytes()))?;
    if *separator == "\\" {
        return None;
    }
    let mut end = end - separator.len();
    end = before_space(bytes, floor, end);
    while end > floor && matches!(bytes[end - 1], b'?' | b'!' | b'&') {
        end -= 1;
    }
    end = before_space(bytes, floor, end);
    match bytes[floor..end].last()? {
        b')' => Some(called(text, floor, end, separators).unwrap_or("?".into())),
        b']' | b'}' | b'"' | b'\'' | b'`' => Some("?".into()),
        byte if is_name_byte(*byte) => Some("?".into()),
        _ => None,
    }
}

/// A receiver with what stands before it: `self.parser` and `?.parser` for a field, `crate::text` for a
/// path.
fn qualified<'t>(text: &'t str, name: &'t str, separators: &[&str]) -> Cow<'t, str> {
    let start = name.as_ptr() as usize - text.as_ptr() as usize;
    let floor = (start.saturating_sub(MAX_BACK)..=start).find(|at| text.is_char_boundary(*at));
    let head = text[floor.unwrap_or(start)..start].trim_end();
    let is_member = separators.iter().any(|separator| head.ends_with(separator)) && !head.ends_with("..");
    if !is_member {
        return name.into();
    }
    if head.ends_with("::") {
        let cut = head.rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let path = cut.map_or(head, |at| {
            head[at..].trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_')
        });
        let path = path.trim_start_matches(':');
        // A path that a generic interrupts: its last part has to do.
        let is_whole = !path.is_empty() && !path.starts_with(char::is_numeric);
        return if is_whole {
            format!("{path}{name}").into()
        } else {
            name.into()
        };
    }
    match before(text, start, separators) {
        Some(outer) => format!("{outer}.{name}").into(),
        None => format!("?.{name}").into(),
    }
}

/// The function of a call whose arguments end here.
fn called<'t>(text: &'t str, floor: usize, end: usize, separators: &[&str]) -> Option<Cow<'t, str>> {
    let bytes = text.as_bytes();
    let mut end = before_brackets(bytes, floor, end, b'(', b')')?;
    if bytes[floor..end].ends_with(b">") {
        end = before_brackets(bytes, floor, end, b'<', b'>')?;
        end -= if bytes[floor..end].ends_with(b"::") { 2 } else { 0 };
    }
    let start = name_start(bytes, floor, end);
    let name = text.get(start..end)?;
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    let end = before_space(bytes, floor, start);
    let is_member = separators
        .iter()
        .any(|separator| bytes[floor..end].ends_with(separator.as_bytes()));
    Some(match before(text, start, separators) {
        Some(receiver) => format!("{receiver}.{name}()").into(),
        None if is_member => format!("?.{name}()").into(),
        None => format!("{name}()").into(),
    })
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

    #[track_caller]
    fn check_receiver(text: &str, expected: Option<&str>) {
        let at = text.find('#').unwrap_or(0);
        let text = text.replace('#', "");
        assert_eq!(receiver(&text, at, &[".", "::", "->"]).as_deref(), expected, "{text}");
    }

    #[test]
    fn what_a_call_gives_is_a_receiver_too() {
        check_receiver("self.#parse()", Some("self"));
        check_receiver("self.parser.#parse()", Some("self.parser"));
        check_receiver("make().parser.#parse()", Some("?.parser"));
        check_receiver("crate::text::#parse()", Some("crate::text"));
        check_receiver("make().#run()", Some("make()"));
        check_receiver("make(a, (b))?\n    .#run()", Some("make()"));
        check_receiver("Parser::new().#run()", Some("Parser.new()"));
        check_receiver("a.b().c::<T>().#d()", Some("?.c()"));
        check_receiver("list[0].#run()", Some("?"));
        check_receiver("\"a\".#join()", Some("?"));
        check_receiver("(a + b).#run()", Some("?"));
        check_receiver("0..#len()", None);
        check_receiver("::#run()", None);
        check_receiver("#run()", None);
    }
}
