//! Tool calls that a server left in the text instead of taking them out: JSON or tagged
//! parameters between `<tool_call>` tags. Called by `wire`, and only for replies without any
//! structured call. Never takes a call to a tool that was not offered.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::wire::{leading_identifier, made_up_id};
use crate::model::{ToolCall, ToolSpec};

static BLOCK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)<tool_call>\s*(.*?)\s*(?:</tool_call>|\z)").expect("the pattern is valid"));
static FUNCTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)<function=([^>\n]*)>(.*?)</function>").expect("the pattern is valid"));
static PARAMETER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)<parameter=([^>\n]*)>(.*?)</parameter>").expect("the pattern is valid"));

/// The text without its calls, and the calls. All or nothing: when one block cannot be read, the
/// text stays as it is and the agent asks again.
pub(super) fn extract(content: String, tools: &[ToolSpec]) -> (String, Vec<ToolCall>) {
    if tools.is_empty() || !(content.contains("<tool_call>") || content.contains("<function=")) {
        return (content, Vec::new());
    }
    let blocks: Vec<&str> = BLOCK
        .captures_iter(&content)
        .map(|found| found.get(1).map_or("", |block| block.as_str()))
        .collect();
    let blocks = if blocks.is_empty() {
        vec![content.as_str()]
    } else {
        blocks
    };
    let calls: Option<Vec<ToolCall>> = blocks.into_iter().map(|block| parse(block, tools)).collect();
    match calls {
        Some(calls) => {
            let rest = BLOCK.replace_all(&content, "");
            (FUNCTION.replace_all(&rest, "").into_owned(), calls)
        }
        None => (content, Vec::new()),
    }
}

fn parse(block: &str, tools: &[ToolSpec]) -> Option<ToolCall> {
    let (name, arguments) = match serde_json::from_str::<Value>(block) {
        Ok(object) => {
            let arguments = object.get("arguments").or_else(|| object.get("parameters"))?;
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            (object["name"].as_str()?.to_owned(), arguments)
        }
        Err(_) => {
            let function = FUNCTION.captures(block)?;
            let mut arguments = Map::new();
            for parameter in PARAMETER.captures_iter(&function[2]) {
                let value = one_line_end_off(&parameter[2]);
                arguments.insert(leading_identifier(&parameter[1]), Value::String(value.to_owned()));
            }
            (leading_identifier(&function[1]), Value::Object(arguments).to_string())
        }
    };
    tools.iter().any(|tool| tool.name == name).then(|| ToolCall {
        id: made_up_id(),
        name,
        arguments,
    })
}

/// A value is framed by one line end on each side; more than that belongs to it, and so does its
/// indentation.
fn one_line_end_off(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, rest: &str, expected: &[(&str, &str)]) {
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: Value::Null,
        };
        let (text, calls) = extract(content.to_owned(), &[spec("grep"), spec("write_file")]);
        let calls: Vec<(&str, &str)> = calls
            .iter()
            .map(|call| (call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(calls, expected);
        assert_eq!(text.trim(), rest);
    }

    #[test]
    fn calls_left_in_the_text_are_found() {
        check(
            "Let me look.\n<tool_call>{\"name\":\"grep\",\"arguments\":{\"pattern\":\"x\"}}</tool_call>",
            "Let me look.",
            &[("grep", r#"{"pattern":"x"}"#)],
        );
        check(
            "<tool_call>\n<function=grep>\n<parameter=pattern>\nfn main\n</parameter>\n</function>\n</tool_call>",
            "",
            &[("grep", r#"{"pattern":"fn main"}"#)],
        );
        check(
            "<function=write_file><parameter=path>a.py</parameter><parameter=content>\n    indented\n\n</parameter></function>",
            "",
            &[("write_file", r#"{"content":"    indented\n","path":"a.py"}"#)],
        );
    }

    #[test]
    fn talk_about_calls_is_no_call() {
        check("use <tool_call> tags", "use <tool_call> tags", &[]);
        let other = r#"<tool_call>{"name":"rm_rf","arguments":{}}</tool_call>"#;
        check(other, other, &[]);
        check(
            "<tool_call>{\"name\":\"grep\",\"argu",
            "<tool_call>{\"name\":\"grep\",\"argu",
            &[],
        );
    }
}
