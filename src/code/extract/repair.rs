//! Texts that a grammar stumbles over, changed so that it does not, byte for byte as long as before:
//! what is found is read from the text as it was. Never changes where anything stands.

/// Two things of Kotlin. A member on the line of the closing brace has to end, and an object that a
/// class delegates to must not look like a call with the body of the class.
pub fn kotlin(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        end_members(&mut bytes[at..at + line.len()]);
        if let Some(range) = delegate(line) {
            bytes[at + range.start..at + range.end].fill(b' ');
        }
        at += line.len();
    }
    String::from_utf8(bytes).ok()
}

/// `{ val a = 1 }` becomes `{ val a = 1;}`.
fn end_members(line: &mut [u8]) {
    for at in 1..line.len().saturating_sub(1) {
        if line[at] == b' ' && line[at + 1] == b'}' && !matches!(line[at - 1], b' ' | b'\t' | b'{' | b';') {
            line[at] = b';';
        }
    }
}

/// Where ` by cook` stands in `class Chef : Cook by cook {`.
fn delegate(line: &str) -> Option<std::ops::Range<usize>> {
    let head = line.trim_end().strip_suffix('{')?;
    let start = head.rfind(" by ")?;
    let object = head[start + 4..].trim();
    let is_name = object.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_header = head.contains("class ") || head.contains("object ") || head.trim_start().starts_with(')');
    let is_property = head.contains("val ") || head.contains("var ");
    (is_name && !object.is_empty() && (is_header || !is_property)).then_some(start..head.len())
}

#[cfg(test)]
mod tests {
    use super::kotlin;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(kotlin(text).as_deref(), Some(expected));
    }

    #[test]
    fn kotlin_keeps_its_length_and_what_needs_no_repair() {
        check("object A { val b = 1 }\n", "object A { val b = 1;}\n");
        check("val a = { }\n", "val a = { }\n");
        check("class A : B by c {\n}", "class A : B      {\n}");
        check(") : A(b), C by d {", ") : A(b), C      {");
        check("val a: B by lazy {", "val a: B by lazy {");
        check("// größe }", "// größe;}");
    }
}
