//! What a declaration says of the type of a variable, a field or a result: a type as written, or the
//! call that makes the value. The last name counts, wrappers that hand on are looked through. Never
//! infers anything.

use std::ops::Range;

use tree_sitter::Node;

use super::kind::{Kinds, Says};
use super::name;

/// A name with the type that is written for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Where the name stands.
    pub name: Range<usize>,
    /// Line of the type, from 1.
    pub line: u32,
    /// The type: `Parser`; or what makes the value: `make()`, `parser.make()`.
    pub written: String,
}

/// Types whose members are those of their first argument, and types of results that are taken apart
/// before they are used.
const WRAPPERS: &[&str] = &[
    "Annotated",
    "Arc",
    "Awaited",
    "Box",
    "ClassVar",
    "Final",
    "Option",
    "Optional",
    "Pin",
    "Promise",
    "Rc",
    "Readonly",
    "Result",
    "Type",
];
/// Words before a type that say nothing of it.
const MARKS: &[&str] = &[
    "dyn ",
    "impl ",
    "mut ",
    "const ",
    "readonly ",
    "final ",
    "chan ",
    "ref ",
    "&",
    "*",
    "?",
    "...",
    "[]",
];
/// Methods of Rust that give what a wrapper holds, or another one of the same.
const UNWRAPS: &[&str] = &["clone", "expect", "unwrap", "unwrap_or_default", "unwrap_or_else"];
/// Functions of Rust that put a value into what has its methods.
const WRAPS: &[&str] = &["Arc::new", "Box::new", "Box::pin", "Pin::new", "Rc::new"];
/// Deeper nesting is no declaration that people write.
const MAX_NESTING: usize = 6;

/// What a node says of the type of a name, as a type or as a value.
pub fn written(text: &str, node: Node<'_>, kinds: &Kinds, separators: &[&str]) -> Option<String> {
    let mut node = node;
    for _ in 0..MAX_NESTING {
        if matches!(kinds.says(node), Says::Call)
            && let Some(inner) = handed_on(text, node)
        {
            node = inner;
            continue;
        }
        let at = match kinds.says(node) {
            Says::Inner => 0,
            Says::Last => node.named_child_count().checked_sub(1)? as u32,
            _ => break,
        };
        node = kinds
            .part(node, "operand")
            .or_else(|| kinds.part(node, "value"))
            .or_else(|| node.named_child(at))?;
    }
    let typed = match kinds.says(node) {
        Says::Call => return made(text, kinds.part(node, "function")?, separators),
        Says::Method => return made(text, kinds.part(node, "name")?, separators),
        Says::Makes(field) => kinds.part(node, field)?,
        Says::Cast => node.named_child(1)?,
        Says::Type => node,
        Says::Inner | Says::Last | Says::Nothing => return None,
    };
    type_name(&text[typed.byte_range()]).map(str::to_owned)
}

/// The value of Rust that a call only wraps or unwraps: `Arc::new(value)`, `value.unwrap()`.
fn handed_on<'t>(text: &str, node: Node<'t>) -> Option<Node<'t>> {
    if node.kind() != "call_expression" {
        return None;
    }
    let function = node.child_by_field_name("function")?;
    match function.kind() {
        "field_expression" => {
            let field = function.child_by_field_name("field")?;
            let unwraps = UNWRAPS.contains(&&text[field.byte_range()]);
            function.child_by_field_name("value").filter(|_| unwraps)
        }
        "scoped_identifier" => {
            let wraps = WRAPS.iter().any(|wrap| text[function.byte_range()].ends_with(wrap));
            let arguments = node.child_by_field_name("arguments").filter(|_| wraps)?;
            arguments.named_child(0).filter(|_| arguments.named_child_count() == 1)
        }
        _ => None,
    }
}

/// The call that makes a value.
fn made(text: &str, function: Node<'_>, separators: &[&str]) -> Option<String> {
    let name = name::last(text, function.byte_range())?;
    let called = &text[name.clone()];
    Some(match name::receiver(text, name.start, separators) {
        None => format!("{called}()"),
        Some(receiver) if receiver.ends_with(')') => format!("?.{called}()"),
        Some(receiver) => format!("{receiver}.{called}()"),
    })
}

/// The last name of a type, inside of wrappers: `Foo` of `Option<&'a mut crate::Foo<T>>`.
pub fn type_name(written: &str) -> Option<&str> {
    let mut written = written.trim();
    for _ in 0..MAX_NESTING {
        written = written.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
        written = unmarked(written);
        if let Some(inner) = written.strip_prefix('(') {
            if inner.contains("=>") {
                return None;
            }
            // Of several results the first, with its name before it.
            let first = inner.split([',', ')']).next()?.trim();
            written = first.rsplit(' ').next()?;
            continue;
        }
        if let Some(part) = alternative(written) {
            written = part;
            continue;
        }
        let end = written.find(['<', '[', '{', '(', ' ']).unwrap_or(written.len());
        let head = &written[..end];
        let last = head.rsplit(['.', ':', '\\', '/']).next()?;
        let inner = written[end..].strip_prefix(['<', '[']);
        match inner {
            Some(inner) if WRAPPERS.contains(&last) => written = first_argument(inner),
            // `map[string]Foo` and `[8]Foo` have no members of their own.
            _ => {
                let is_name = last.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
                let is_type = is_name && !matches!(last, "var" | "auto" | "let" | "map" | "void" | "fn" | "func");
                return is_type.then(|| with_module(head, last));
            }
        }
    }
    None
}

/// A type with the module that stands before it: `http.Request` of `net/http.Request`, `io::Error`.
fn with_module<'t>(head: &'t str, last: &'t str) -> &'t str {
    let before = head[..head.len() - last.len()].trim_end_matches(['.', ':', '\\']);
    let start = before
        .char_indices()
        .rfind(|(_, c)| !c.is_alphanumeric() && *c != '_')
        .map_or(0, |(at, c)| at + c.len_utf8());
    if start == before.len() { last } else { &head[start..] }
}

fn unmarked(written: &str) -> &str {
    let mut written = written.trim_start();
    loop {
        if let Some(lifetime) = written.strip_prefix('\'') {
            let end = lifetime
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(lifetime.len());
            written = lifetime[end..].trim_start();
            continue;
        }
        match MARKS.iter().find_map(|mark| written.strip_prefix(mark)) {
            Some(rest) => written = rest.trim_start(),
            None => return written,
        }
    }
}

/// The first part of `A | null` that is not nothing.
fn alternative(written: &str) -> Option<&str> {
    let mut depth = 0_i32;
    let bar = written.bytes().position(|byte| {
        match byte {
            b'<' | b'[' | b'(' | b'{' => depth += 1,
            b'>' | b']' | b')' | b'}' => depth -= 1,
            _ => {}
        }
        byte == b'|' && depth == 0
    })?;
    let (first, rest) = (written[..bar].trim(), written[bar + 1..].trim());
    Some(if matches!(first, "" | "null" | "undefined" | "None") {
        rest
    } else {
        first
    })
}

fn first_argument(inner: &str) -> &str {
    let mut depth = 0_i32;
    let end = inner.bytes().position(|byte| {
        match byte {
            b'<' | b'[' | b'(' => depth += 1,
            b'>' | b']' | b')' => depth -= 1,
            _ => {}
        }
        depth < 0 || (byte == b',' && depth == 0)
    });
    &inner[..end.unwrap_or(inner.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, expected: Option<&str>) {
        assert_eq!(type_name(written), expected, "{written}");
    }

    #[test]
    fn the_type_is_the_last_name_inside_of_wrappers() {
        check("Parser", Some("Parser"));
        check("&'a mut crate::Parser<'a, T>", Some("crate::Parser"));
        check("Arc<dyn Read + Send>", Some("Read"));
        check("io::Result<Option<Box<Foo>>>", Some("Foo"));
        check("Result<(), Error>", None);
        check("*http.Request", Some("http.Request"));
        check("(p *Page, err error)", Some("Page"));
        check("(Page, error)", Some("Page"));
        check("[]*Page", Some("Page"));
        check("map[string]Page", None);
        check("List<Foo>", Some("List"));
        check("Foo | undefined", Some("Foo"));
        check("null | Foo<A | B>", Some("Foo"));
        check("Optional[\"Foo\"]", Some("Foo"));
        check("Promise<Foo[]>", Some("Foo"));
        check("{ a: number }", None);
        check("(a: number) => void", None);
        check("var", None);
        check("", None);
        check("<<<<<<", None);
        check("mut�t::Formatter", Some("t::Formatter"));
    }
}
