//! The lines between `---` at the head of a skill: the small part of YAML that skills really use,
//! which is plain and quoted values, values over several lines, and lists. Called by `skill`.
//! Never fails on a key that it does not know.

use std::collections::BTreeMap;

/// Most lines of front matter.
const MAX_LINES: usize = 200;

/// Keys with their values.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Front {
    values: BTreeMap<String, Vec<String>>,
}

impl Front {
    /// The one value of a key.
    pub(super) fn one(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.first().map(String::as_str)
    }

    /// All values of a key.
    pub(super) fn all(&self, key: &str) -> Vec<&str> {
        self.values.get(key).into_iter().flatten().map(String::as_str).collect()
    }
}

/// The front matter and the text behind it.
pub(super) fn split(text: &str) -> Result<(Front, String), String> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut lines = text.split('\n');
    if lines.next().map(str::trim_end) != Some("---") {
        return Err("it does not begin with front matter between two lines of ---".to_owned());
    }
    let mut head = Vec::new();
    loop {
        match lines.next() {
            Some(line) if line.trim_end() == "---" => break,
            Some(line) if head.len() < MAX_LINES => head.push(line),
            _ => return Err("its front matter does not end with a line of ---".to_owned()),
        }
    }
    Ok((read(&head), lines.collect::<Vec<_>>().join("\n")))
}

fn read(lines: &[&str]) -> Front {
    let mut front = Front::default();
    let mut key: Option<String> = None;
    for line in lines {
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let is_indented = line.starts_with([' ', '\t']);
        if let Some(item) = content
            .strip_prefix("- ")
            .or(content.strip_prefix('-').filter(|item| item.is_empty()))
        {
            push(&mut front, key.as_deref(), unquoted(item));
        } else if is_indented {
            go_on(&mut front, key.as_deref(), content);
        } else if let Some((name, value)) = content.split_once(':') {
            let name = name.trim().to_owned();
            let values = values(value.trim());
            front.values.insert(name.clone(), values);
            key = Some(name);
        }
    }
    front
}

fn push(front: &mut Front, key: Option<&str>, value: String) {
    if let Some(values) = key.and_then(|key| front.values.get_mut(key)) {
        values.push(value);
    }
}

/// A line that belongs to the value before it.
fn go_on(front: &mut Front, key: Option<&str>, content: &str) {
    let Some(values) = key.and_then(|key| front.values.get_mut(key)) else {
        return;
    };
    match values.last_mut() {
        Some(last) => {
            last.push(' ');
            last.push_str(content);
        }
        None => values.push(content.to_owned()),
    }
}

/// `a`, `"a"`, `[a, "b"]`; `|` and `>` announce lines to come.
fn values(value: &str) -> Vec<String> {
    if value.is_empty() || matches!(value.trim_end_matches(['-', '+']), "|" | ">") {
        return Vec::new();
    }
    match value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        Some(list) => list.split(',').map(unquoted).filter(|item| !item.is_empty()).collect(),
        None => vec![unquoted(value)],
    }
}

fn unquoted(value: &str) -> String {
    let value = value.trim();
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote));
        if let Some((inner, _)) = inner {
            return inner.to_owned();
        }
    }
    // A comment begins with a space before its sign.
    value.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, key: &str, expected: &[&str]) {
        let (front, body) = split(&format!("---\n{head}\n---\nbody\n---\nmore")).unwrap();
        assert_eq!(front.all(key), expected, "{head}");
        assert_eq!(body, "body\n---\nmore");
    }

    #[test]
    fn values_are_read_as_skills_write_them() {
        check("name: a-b", "name", &["a-b"]);
        check("name: \"a: b\" # c", "name", &["a: b"]);
        check("name: 'x'", "name", &["x"]);
        check("name: a # b", "name", &["a"]);
        check("d: a: b", "d", &["a: b"]);
        check("d: >\n  one\n  two\nname: x", "d", &["one two"]);
        check("d: |-\n  one\n\n  two", "d", &["one two"]);
        check("d: one\n  two", "d", &["one two"]);
        check("t: [a, \"b c\", ]", "t", &["a", "b c"]);
        check("t:\n  - a\n  - 'b'\nx: 1", "t", &["a", "b"]);
        check("t:\n- a\n- b", "t", &["a", "b"]);
        check("# only a remark\nmetadata:\n  author: x", "name", &[]);
        check("name: a\r\nd: b\r", "d", &["b"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(---\n)?[-a: \\[\\]\"'\n|>#,]{0,80}(\n---)?") {
            drop(split(&text));
        }
    }
}
