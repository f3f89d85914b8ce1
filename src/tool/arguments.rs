//! Arguments of tool calls: JSON read strictly, then fitted leniently to what a tool declares.
//! Called by every tool. Never guesses a missing value, and never ignores a key it does not know.

use std::fmt;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::ToolError;

/// The schema of a tool's arguments: one plain object, without references and unions, which many
/// servers do not understand.
pub(super) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        object.remove("description");
    }
    schema
}

fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get("type") {
                let plain = types.iter().find(|kind| *kind != "null").cloned();
                object.insert("type".to_owned(), plain.unwrap_or(Value::Null));
            }
            // Formats such as `uint32` are unknown outside Rust and refused by some servers.
            object.remove("format");
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            object.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// Reads the arguments of a tool. What is only written differently is fitted: lines in a list
/// where a string is expected, JSON in a string, numbers in a string, `null` for a key left out.
pub(super) fn fit<T: DeserializeOwned + JsonSchema>(tool: &str, arguments: Value) -> Result<T, ToolError> {
    let schema = schema::<T>();
    let mut arguments = match arguments {
        Value::Null => Value::Object(Map::new()),
        Value::String(text) => parse_json(&text).unwrap_or(Value::String(text)),
        other => other,
    };
    if let (Some(given), Some(properties)) = (arguments.as_object_mut(), schema["properties"].as_object()) {
        given.retain(|_, value| !value.is_null());
        for (key, property) in properties {
            if let Some(value) = given.get_mut(key) {
                fit_value(value, property["type"].as_str().unwrap_or_default());
            }
        }
    }
    let fitted = match arguments {
        Value::Object(_) => serde_json::from_value(arguments),
        // Serde would take a list for a struct, by position.
        _ => Err(serde_json::Error::custom(
            "invalid type: the arguments are no JSON object",
        )),
    };
    fitted.map_err(|problem| {
        let problem = problem.to_string();
        // What serde expects includes every other name that a key may have.
        let problem = match problem.split_once(", expected ") {
            Some((unknown, _)) if unknown.starts_with("unknown field") => unknown,
            _ => problem.as_str(),
        };
        ToolError::BadCall(format!(
            "{tool}: {problem}; nothing was run. It takes {}",
            describe_keys(&schema)
        ))
    })
}

fn fit_value(value: &mut Value, kind: &str) {
    let fitted = match (kind, &*value) {
        ("string", Value::Array(parts)) => parts
            .iter()
            .map(Value::as_str)
            .collect::<Option<String>>()
            .map(Value::String),
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("array" | "object" | "integer" | "number" | "boolean", Value::String(text)) => {
            let parsed = parse_json(text.trim()).or_else(|_| parse_json(&text.trim().to_lowercase()));
            parsed.ok().filter(|parsed| is_kind(parsed, kind))
        }
        ("integer", Value::Number(number)) => number
            .as_f64()
            .filter(|float| number.is_f64() && float.fract() == 0.0 && (0.0..1e15).contains(float))
            .map(|float| Value::from(float as u64)),
        _ => None,
    };
    if let Some(fitted) = fitted {
        *value = fitted;
    }
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "array" => value.is_array(),
        "object" => value.is_object(),
        "boolean" => value.is_boolean(),
        _ => value.is_number(),
    }
}

/// The keys of a schema in words: `path (string, required), limit (integer)`.
fn describe_keys(schema: &Value) -> String {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|keys| keys.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let keys: Vec<String> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, property)| {
            let kind = property["type"].as_str().unwrap_or("any");
            let must = if required.contains(&key.as_str()) {
                ", required"
            } else {
                ""
            };
            format!("{key} ({kind}{must})")
        })
        .collect();
    keys.join(", ")
}

/// Reads JSON in which no object has a key twice: of two values for one key, nobody can say which
/// is meant.
pub(super) fn parse_json(text: &str) -> Result<Value, serde_json::Error> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict)?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} stands there twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        /// Text.
        text: String,
        /// Count.
        #[serde(default)]
        count: Option<u32>,
        /// Range.
        #[serde(default)]
        range: Vec<u32>,
        /// Flag.
        #[serde(default)]
        flag: bool,
    }

    #[track_caller]
    fn check(arguments: Value, text: &str, count: Option<u32>, range: &[u32], flag: bool) {
        let fitted: Sample = fit("sample", arguments).unwrap();
        let expected = Sample {
            text: text.to_owned(),
            count,
            range: range.to_vec(),
            flag,
        };
        assert_eq!(fitted, expected);
    }

    #[test]
    fn l4_l5_values_written_differently_are_fitted() {
        check(
            json!({"text": ["line1\n", "line2\n"]}),
            "line1\nline2\n",
            None,
            &[],
            false,
        );
        check(json!({"text": "a", "range": "[1,100]"}), "a", None, &[1, 100], false);
        check(
            json!({"text": "a", "count": "7", "flag": "True"}),
            "a",
            Some(7),
            &[],
            true,
        );
        check(json!({"text": "a", "count": 7.0}), "a", Some(7), &[], false);
        check(json!({"text": "a", "count": null}), "a", None, &[], false);
        check(json!(r#"{"text": "a"}"#), "a", None, &[], false);
        check(json!({"text": 12}), "12", None, &[], false);
    }

    #[test]
    fn wrong_arguments_are_answered_with_the_keys() {
        for (arguments, words) in [
            (json!({}), "missing field `text`"),
            (json!({"text": "a", "colour": 1}), "unknown field `colour`"),
            (json!({"text": "a", "count": -1}), "invalid value"),
            (json!(["a"]), "invalid"),
            (json!({"text": "a", "count": "many"}), "invalid type"),
        ] {
            let problem = fit::<Sample>("sample", arguments).unwrap_err().to_string();
            assert!(problem.contains(words), "{problem}");
            assert!(problem.contains("text (string, required)"), "{problem}");
        }
    }

    #[test]
    fn m01_json_is_read_strictly() {
        for text in [
            r#"{"a":1"#,
            r#"{"a":1,}"#,
            r#"{"a":NaN}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":{"b":1,"b":1}}"#,
            "{} {}",
        ] {
            assert!(parse_json(text).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse_json(&deep).is_err());
        assert_eq!(parse_json(" ").unwrap(), json!({}));
        let text = r#"{"a":[1,-2,0.5,true,null,"x"]}"#;
        assert_eq!(parse_json(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }
}
