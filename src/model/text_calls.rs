//! Tool calls that stand in the text of a reply: in `text_mode`, or because the server did not take
//! them out. JSON and tagged parameters as Hermes, Qwen, GLM, Kimi, Mistral and Llama write them.
//! Called by `assembly`, and only for replies without any structured call. Never takes a call to a
//! tool that was not offered, and never a part of what could not be read whole.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::assembly::{leading_identifier, made_up_id};
use crate::model::{ToolCall, ToolSpec};

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// How a call begins. `model::screen` hides a reply from there on.
pub(super) static OPENING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"<tool_call>|<(?:function|invoke)(?:=|\s+name=)|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call_begin\|>")
});
/// Tags around calls that say nothing themselves.
static AROUND: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"</tool_call>|</?(?:function_calls|minimax:tool_call)>|<\|tool_calls_section_(?:begin|end)\|>|<\|tool_call_end\|>|```(?:json|xml)?[ \t]*(?:\n|\z)",
    )
});
/// What cannot be left over where every call was read whole.
static LEFT_OVER: LazyLock<Regex> = LazyLock::new(|| pattern(r"</(?:parameter|function|invoke|arg_value)>"));
static FUNCTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\A<(?:function|invoke)(?:\s+name)?=["']?\s*([\w.-]+)[^>\n]*>?"#));
static PARAMETER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\A<parameter(?:\s+name)?=["']?\s*([\w.-]+)\s*["']?(?:\s+\w+="[^"\n]*")*\s*[>=]"#));
static GLM_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\A([\w.-]+)\s*(?:<arg_key>|</tool_call>)"));
static GLM_KEY: LazyLock<Regex> = LazyLock::new(|| pattern(r"\A<arg_key>\s*([\w.-]+)\s*</arg_key>\s*<arg_value>"));
static KIMI_NAME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\A<\|tool_call_begin\|>\s*([\w.-]+)[^<]*<\|tool_call_argument_begin\|>"));

/// A call as it stands in the text: name, arguments as JSON text.
type Found = (String, String);

/// The text without its calls, and the calls. All or nothing: when one call cannot be read, the
/// text stays as it is and the agent asks again.
pub(super) fn extract(content: String, tools: &[ToolSpec]) -> (String, Vec<ToolCall>) {
    if tools.is_empty() {
        return (content, Vec::new());
    }
    let read = if OPENING.is_match(&content) {
        read_all(&content)
    } else {
        bare_json(&content).map(|call| (String::new(), vec![call]))
    };
    let Some((rest, found)) = read else {
        return (content, Vec::new());
    };
    let calls: Option<Vec<ToolCall>> = found.into_iter().map(|found| offered(found, tools)).collect();
    match calls {
        Some(calls) => (rest, calls),
        None => (content, Vec::new()),
    }
}

fn offered((name, arguments): Found, tools: &[ToolSpec]) -> Option<ToolCall> {
    let name = leading_identifier(name.strip_prefix("functions.").unwrap_or(&name));
    tools.iter().any(|tool| tool.name == name).then(|| ToolCall {
        id: made_up_id(),
        name,
        arguments,
    })
}

fn read_all(content: &str) -> Option<(String, Vec<Found>)> {
    let (mut said, mut found) = (String::new(), Vec::new());
    let mut rest = content;
    while let Some(opening) = OPENING.find(rest) {
        said.push_str(&rest[..opening.start()]);
        rest = read_one(&rest[opening.start()..], opening.as_str(), &mut found)?;
    }
    said.push_str(rest);
    let said = AROUND.replace_all(&said, "");
    (!LEFT_OVER.is_match(&said)).then(|| (said.into_owned(), found))
}

/// Reads what an opening begins and returns the text behind it.
fn read_one<'t>(text: &'t str, opening: &str, found: &mut Vec<Found>) -> Option<&'t str> {
    match opening {
        "<tool_call>" => {
            let inner = text[opening.len()..].trim_start();
            let inner = inner.strip_prefix("```json").unwrap_or(inner).trim_start();
            if inner.starts_with(['{', '[']) {
                json_calls(inner, found)
            } else if inner.starts_with("<function") || inner.starts_with("<invoke") {
                tagged(inner, found)
            } else {
                glm(inner, found)
            }
        }
        "[TOOL_CALLS]" => {
            let inner = text[opening.len()..].trim_start();
            match inner.split_once("[ARGS]") {
                Some((name, arguments)) if !inner.starts_with(['{', '[']) => {
                    let (arguments, rest) = json_value(arguments)?;
                    found.push((name.trim().to_owned(), arguments.to_string()));
                    Some(rest)
                }
                _ => json_calls(inner, found),
            }
        }
        "<|python_tag|>" => json_calls(text[opening.len()..].trim_start(), found),
        "<|tool_call_begin|>" => {
            let head = KIMI_NAME.captures(text)?;
            let (arguments, rest) = json_value(&text[head[0].len()..])?;
            found.push((head[1].to_owned(), arguments.to_string()));
            Some(rest)
        }
        _ => tagged(text, found),
    }
}

/// A JSON value, and the text behind it.
fn json_value(text: &str) -> Option<(Value, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// One call as JSON, or several: in a list or one behind another.
fn json_calls<'t>(text: &'t str, found: &mut Vec<Found>) -> Option<&'t str> {
    let mut rest = text;
    loop {
        let (value, behind) = json_value(rest)?;
        match value {
            Value::Array(calls) => found.extend(calls.iter().map(json_call).collect::<Option<Vec<Found>>>()?),
            call => found.push(json_call(&call)?),
        }
        rest = behind;
        let next = behind.trim_start().trim_start_matches(';').trim_start();
        if !next.starts_with('{') {
            return Some(rest);
        }
        rest = next;
    }
}

fn json_call(call: &Value) -> Option<Found> {
    let call = call
        .get("function")
        .filter(|function| function.is_object())
        .unwrap_or(call);
    let arguments = call.get("arguments").or_else(|| call.get("parameters"))?;
    let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
    Some((call["name"].as_str()?.to_owned(), arguments))
}

/// A reply that is nothing but one call as JSON.
fn bare_json(content: &str) -> Option<Found> {
    let text = content.trim();
    let text = text
        .strip_prefix("```json")
        .or(text.strip_prefix("```"))
        .unwrap_or(text);
    let text = text.strip_suffix("```").unwrap_or(text).trim();
    if !text.starts_with('{') {
        return None;
    }
    let (call, rest) = json_value(text)?;
    json_call(&call).filter(|_| rest.trim().is_empty())
}

/// `<function=NAME>` with its parameters. The closing tags may be missing at the end, since some
/// servers stop there; a value is only whole with its own.
fn tagged<'t>(text: &'t str, found: &mut Vec<Found>) -> Option<&'t str> {
    let head = FUNCTION.captures(text)?;
    let mut arguments = Map::new();
    let mut rest = text[head[0].len()..].trim_start();
    let end = loop {
        if let Some(parameter) = PARAMETER.captures(rest) {
            let (value, behind) = value(&rest[parameter[0].len()..], "</parameter>", &AFTER_PARAMETER)?;
            take(&mut arguments, &parameter[1], value)?;
            rest = behind;
        } else if let Some(closing) = ["</function>", "</invoke>"].iter().find(|tag| rest.starts_with(**tag)) {
            break &rest[closing.len()..];
        } else if rest.is_empty() || rest.starts_with("</tool_call>") {
            break rest;
        } else {
            return None;
        }
    };
    found.push((head[1].to_owned(), Value::Object(arguments).to_string()));
    Some(end)
}

const AFTER_PARAMETER: [&str; 5] = ["<parameter", "</function>", "</invoke>", "</tool_call>", "<tool_call>"];
const AFTER_GLM_VALUE: [&str; 2] = ["<arg_key>", "</tool_call>"];

/// GLM's way: the name alone, then pairs of keys and values.
fn glm<'t>(text: &'t str, found: &mut Vec<Found>) -> Option<&'t str> {
    let name = GLM_NAME.captures(text)?[1].to_owned();
    let mut arguments = Map::new();
    let mut rest = text[name.len()..].trim_start();
    while let Some(key) = GLM_KEY.captures(rest) {
        let (value, behind) = value(&rest[key[0].len()..], "</arg_value>", &AFTER_GLM_VALUE)?;
        take(&mut arguments, &key[1], value)?;
        rest = behind;
    }
    found.push((name, Value::Object(arguments).to_string()));
    (rest.is_empty() || rest.starts_with("</tool_call>")).then_some(rest)
}

/// A value up to the closing tag behind which another tag of a call follows; the same tag inside
/// the value belongs to the value.
fn value<'t>(text: &'t str, closing: &str, after: &[&str]) -> Option<(&'t str, &'t str)> {
    let end = text.match_indices(closing).find_map(|(at, _)| {
        let behind = text[at + closing.len()..].trim_start();
        (behind.is_empty() || after.iter().any(|tag| behind.starts_with(tag))).then_some((at, behind))
    });
    end.map(|(at, behind)| (one_line_end_off(&text[..at]), behind))
}

/// A parameter that comes twice is as good as none.
fn take(arguments: &mut Map<String, Value>, name: &str, value: &str) -> Option<()> {
    let before = arguments.insert(name.to_owned(), Value::String(value.to_owned()));
    before.is_none().then_some(())
}

/// A value is framed by one line end on each side; more than that belongs to it, and so does its
/// indentation.
fn one_line_end_off(value: &str) -> &str {
    let value = value.strip_prefix("\r\n").or(value.strip_prefix('\n')).unwrap_or(value);
    value.strip_suffix("\r\n").or(value.strip_suffix('\n')).unwrap_or(value)
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
        assert_eq!(calls, expected, "{content}");
        assert_eq!(text.trim(), rest);
    }

    #[track_caller]
    fn check_grep(content: &str) {
        check(content, "", &[("grep", r#"{"pattern":"fn main"}"#)]);
    }

    #[test]
    fn l11_l38_calls_left_in_the_text_are_found() {
        check(
            "Let me look.\n<tool_call>{\"name\":\"grep\",\"arguments\":{\"pattern\":\"</tool_call>\"}}</tool_call>",
            "Let me look.",
            &[("grep", r#"{"pattern":"</tool_call>"}"#)],
        );
        check_grep(
            "<tool_call>\n<function=grep>\n<parameter=pattern>\nfn main\n</parameter>\n</function>\n</tool_call>",
        );
        check_grep("<tool_call>\n<function=grep>\n<parameter=pattern>\nfn main\n</parameter>");
        check_grep(
            "<tool_call>\n```json\n{\"name\": \"grep\", \"arguments\": {\"pattern\": \"fn main\"}}\n```\n</tool_call>",
        );
        check_grep("<tool_call>{\"name\": \"grep\", \"arguments\": \"{\\\"pattern\\\":\\\"fn main\\\"}\"}");
        check_grep("{\"name\": \"grep\", \"parameters\": {\"pattern\": \"fn main\"}}");
        check_grep(
            "<|python_tag|>{\"type\":\"function\",\"function\":{\"name\":\"grep\",\"parameters\":{\"pattern\":\"fn main\"}}}",
        );
        check_grep("[TOOL_CALLS][{\"name\": \"grep\", \"arguments\": {\"pattern\": \"fn main\"}}]");
        check_grep("[TOOL_CALLS]grep[ARGS]{\"pattern\": \"fn main\"}");
        check_grep("<tool_call>grep\n<arg_key>pattern</arg_key>\n<arg_value>fn main</arg_value>\n</tool_call>");
        check_grep(
            "<minimax:tool_call>\n<invoke name=\"grep\">\n<parameter name=\"pattern\">fn main</parameter>\n</invoke>\n</minimax:tool_call>",
        );
        check_grep(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.grep:0<|tool_call_argument_begin|>{\"pattern\": \"fn main\"}<|tool_call_end|><|tool_calls_section_end|>",
        );
        check(
            "<tool_call>{\"name\":\"grep\",\"arguments\":{}}</tool_call>\n<tool_call>\n<function=grep>\n</function>\n</tool_call>",
            "",
            &[("grep", "{}"), ("grep", "{}")],
        );
    }

    #[test]
    fn l1_l2_names_with_leftovers_are_understood() {
        check_grep("<function=grep</function>\n<parameter=pattern=fn main</parameter>\n</function>");
        check_grep("<invoke name=\"grep\"><parameter name=\"pattern\" string=\"true\">fn main</parameter></invoke>");
    }

    #[test]
    fn e5_a_value_loses_its_frame_and_nothing_else() {
        check(
            "<function=write_file><parameter=path>a.py</parameter><parameter=content>\n    indented\n\n</parameter></function>",
            "",
            &[("write_file", r#"{"content":"    indented\n","path":"a.py"}"#)],
        );
        check(
            "<function=write_file>\r\n<parameter=path>\r\na.py\r\n</parameter>\r\n</function>",
            "",
            &[("write_file", r#"{"path":"a.py"}"#)],
        );
    }

    #[test]
    fn talk_about_calls_is_no_call() {
        for talk in [
            "use <tool_call> tags",
            r#"<tool_call>{"name":"rm_rf","arguments":{}}</tool_call>"#,
            "<tool_call>{\"name\":\"grep\",\"argu",
            "{\"name\": \"John\", \"arguments\": {}}",
            "{\"name\": \"grep\", \"arguments\": {}} is what I would write",
            "<function=grep><parameter=pattern>half a val",
            "<function=grep>so it begins</function>",
        ] {
            check(talk, talk, &[]);
        }
    }

    #[test]
    fn m01_what_cannot_be_told_apart_is_not_run() {
        let inner = "<function=write_file><parameter=path>a</parameter><parameter=content>an example:\n\
                     <parameter=x>1</parameter></function>\nand more</parameter></function>";
        check(inner, inner, &[]);
        let twice = "<function=grep><parameter=pattern>a</parameter><parameter=pattern>b</parameter></function>";
        check(twice, twice, &[]);
        let second_broken = "<function=grep><parameter=pattern>a</parameter></function><tool_call>{\"name\":";
        check(second_broken, second_broken, &[]);
    }
}
