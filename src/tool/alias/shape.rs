//! Arguments of well-known tools of other agents in the form that the tools here take: ranges of
//! lines, flags of a search. Called by `alias`. Never changes a value that has its own name here.

use serde_json::{Map, Value, json};

/// Flags of a search that change nothing here: numbers and lines are always shown, and capped.
const WITHOUT_EFFECT: [&str; 7] = [
    "-n",
    "line_numbers",
    "output_mode",
    "head_limit",
    "max_results",
    "type",
    "multiline",
];

/// `view_range`, or a first and a last line, as an offset and a number of lines.
pub(super) fn with_range(mut arguments: Value) -> Value {
    let Some(given) = arguments.as_object_mut() else {
        return arguments;
    };
    let range = given.remove("view_range").map(|range| match range {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::Null),
        range => range,
    });
    let first = range.as_ref().and_then(|range| number(&range[0]));
    if let Some(first) = first {
        given.insert("offset".to_owned(), json!(first.max(1)));
    }
    let last = range.as_ref().and_then(|range| number(&range[1]));
    let last = last.or_else(|| taken(given, &["end_line", "end", "last_line"]));
    if let Some(last) = last {
        let first = ["offset", "start_line", "start"]
            .iter()
            .find_map(|key| number(given.get(*key)?))
            .unwrap_or(1);
        given
            .entry("limit")
            .or_insert_with(|| json!(last.saturating_sub(first.max(1)) + 1));
    }
    arguments
}

/// The flags of the program `grep`.
pub(super) fn with_flags(mut arguments: Value) -> Value {
    let Some(given) = arguments.as_object_mut() else {
        return arguments;
    };
    given.retain(|key, _| !WITHOUT_EFFECT.contains(&key.as_str()));
    if let Some(flag) = given.remove("-i") {
        given.entry("ignore_case").or_insert(flag);
    }
    let around = ["-A", "-B", "-C", "before", "after", "context_lines"]
        .iter()
        .filter_map(|key| taken(given, &[*key]))
        .max();
    if let Some(lines) = around {
        given.entry("context").or_insert_with(|| json!(lines));
    }
    arguments
}

/// Takes the first of these keys out; what is no number goes with it.
fn taken(given: &mut Map<String, Value>, keys: &[&str]) -> Option<u64> {
    keys.iter().find_map(|key| number(&given.remove(*key)?))
}

/// A number, also as text. -1 means the end of a file, which needs no number.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fit: fn(Value) -> Value, given: Value, expected: Value) {
        assert_eq!(fit(given), expected);
    }

    #[test]
    fn l7_ranges_of_lines_in_every_form() {
        let eleven = json!({"path": "a", "offset": 11, "limit": 10});
        check(with_range, json!({"path": "a", "view_range": [11, 20]}), eleven.clone());
        check(
            with_range,
            json!({"path": "a", "view_range": "[11, 20]"}),
            eleven.clone(),
        );
        check(with_range, json!({"path": "a", "offset": 11, "end_line": "20"}), eleven);
        check(
            with_range,
            json!({"start_line": 5, "end_line": 5}),
            json!({"start_line": 5, "limit": 1}),
        );
        check(with_range, json!({"end_line": 9}), json!({"limit": 9}));
        check(with_range, json!({"view_range": [7, -1]}), json!({"offset": 7}));
        check(
            with_range,
            json!({"offset": 9, "end_line": 3}),
            json!({"offset": 9, "limit": 1}),
        );
        check(
            with_range,
            json!({"limit": 3, "offset": 2}),
            json!({"limit": 3, "offset": 2}),
        );
        check(with_range, json!("a"), json!("a"));
    }

    #[test]
    fn l7_flags_of_a_search() {
        check(
            with_flags,
            json!({"pattern": "x", "output_mode": "content", "-n": true, "-i": true, "-A": 2, "-B": 5}),
            json!({"pattern": "x", "ignore_case": true, "context": 5}),
        );
        check(
            with_flags,
            json!({"pattern": "x", "before": 4, "after": 6, "context": 1}),
            json!({"pattern": "x", "context": 1}),
        );
        check(
            with_flags,
            json!({"pattern": "x", "other": 1}),
            json!({"pattern": "x", "other": 1}),
        );
    }
}
