//! Answers that are no reply, sorted by what a caller can do: HTTP codes, error objects inside a
//! stream, web pages. Called by `endpoint` and `reading`. Never passes a server's words on uncapped.

use std::time::Duration;

use chrono::DateTime;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::overflow;
use crate::model::ModelError;
use crate::text;

/// Most bytes of a server's words in an error.
const MAX_DETAIL_BYTES: usize = 600;

/// How servers say that the account is empty; some do so with 429 or 403.
const PAYMENT_WORDS: [&str; 5] = [
    "insufficient_quota",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient credits",
    "billing_hard_limit",
];

/// Sorts an answer with an HTTP error code.
pub(super) fn of_status(status: u16, body: &str, retry_after: Option<Duration>) -> ModelError {
    let detail = format!("{} (HTTP {status})", words(body));
    let lower = body.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    match status {
        402 => ModelError::PaymentRequired(detail),
        403 | 429 if says(&PAYMENT_WORDS) => ModelError::PaymentRequired(detail),
        401 | 403 => ModelError::Unauthorized(detail),
        // A request above the limit of a minute never fits into any minute.
        429 if !says(&["request too large for"]) => ModelError::RateLimited { retry_after, detail },
        // Whatever measures the body, a shorter conversation makes it smaller.
        413 => ModelError::ContextOverflow(detail),
        _ if overflow::is_named_in(&lower) => ModelError::ContextOverflow(detail),
        404 => ModelError::Rejected(format!(
            "{detail}: the server has no such model or no such address; check model.name and model.base_url"
        )),
        300..=399 => ModelError::Rejected(format!(
            "{detail}: the server sends us elsewhere; put the final address into model.base_url"
        )),
        408 | 409 | 425 | 500.. => ModelError::Unavailable(detail),
        _ => ModelError::Rejected(detail),
    }
}

/// Sorts an error object that came with 200, whole or inside a stream. `None`: it is none.
pub(super) fn of_object(object: &Value) -> Option<ModelError> {
    let error = match &object["error"] {
        Value::Null if object["object"] == "error" || object["type"] == "error" => object,
        Value::Null => return None,
        error => error,
    };
    let text = object.to_string();
    let lower = text.to_lowercase();
    let code = [&error["code"], &error["status"], &object["code"]]
        .into_iter()
        .find_map(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()))
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..600).contains(code));
    let status = code.unwrap_or_else(|| {
        let says = |word: &str| lower.contains(word);
        if PAYMENT_WORDS.iter().any(|words| says(words)) {
            402
        } else if says("rate_limit") || says("rate limit") {
            429
        } else if says("authentication") || says("invalid_api_key") {
            401
        } else if says("invalid_request") {
            400
        } else {
            503
        }
    });
    Some(of_status(status, &text, None))
}

/// A reply that begins like a web page.
pub(super) fn of_page(page: &str) -> ModelError {
    ModelError::Rejected(format!(
        "{}: it does not speak the chat completions API at this address; check model.base_url",
        words(page)
    ))
}

/// Whether asking the same again can help.
pub(super) fn may_pass(error: &ModelError) -> bool {
    matches!(error, ModelError::RateLimited { .. } | ModelError::Unavailable(_))
}

/// How long a server asks to wait: seconds, milliseconds, or a date, which is compared with the
/// server's own clock.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|value| value.parse::<u64>().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let value = text("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = DateTime::parse_from_rfc2822(value).ok()?;
    let now = DateTime::parse_from_rfc2822(text("date")?).ok()?;
    Some((until - now).to_std().unwrap_or(Duration::ZERO))
}

/// The server's words: the message of an error object, the title of a page, or the text.
fn words(body: &str) -> String {
    let object: Value = serde_json::from_str(body).unwrap_or_default();
    let message = [
        &object["error"]["message"],
        &object["error"],
        &object["message"],
        &object["detail"],
        &object[0]["error"]["message"],
    ]
    .into_iter()
    .find_map(Value::as_str);
    let said = match message {
        Some(message) => message.to_owned(),
        None if is_page(body) => format!("the server answered with a web page{}", title(body)),
        None if body.trim().is_empty() => "the server gave no reason".to_owned(),
        None => body.trim().to_owned(),
    };
    text::reveal(&text::cap(&said, MAX_DETAIL_BYTES))
}

/// Whether a body is HTML or XML.
pub(super) fn is_page(body: &str) -> bool {
    body.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

fn title(page: &str) -> String {
    let title = page
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"))
        .map(|(title, _)| title.trim());
    title.map_or_else(String::new, |title| {
        format!(" titled {:?}", text::cap_chars(title, 100))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(error: &ModelError) -> &'static str {
        match error {
            ModelError::RateLimited { .. } => "rate limited",
            ModelError::Unavailable(_) => "unavailable",
            ModelError::Unauthorized(_) => "unauthorized",
            ModelError::PaymentRequired(_) => "payment",
            ModelError::ContextOverflow(_) => "overflow",
            ModelError::Rejected(_) => "rejected",
            ModelError::Cancelled => "cancelled",
            ModelError::NoScript(_) => "no script",
        }
    }

    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        assert_eq!(class(&of_status(status, body, None)), expected, "{status} {body}");
    }

    #[test]
    fn codes_are_sorted_by_what_a_caller_can_do() {
        check(400, r#"{"error":{"message":"bad tool"}}"#, "rejected");
        check(401, "", "unauthorized");
        check(402, "credits", "payment");
        check(403, "forbidden", "unauthorized");
        check(404, "model not found", "rejected");
        check(429, "slow down", "rate limited");
        check(429, r#"{"error":{"code":"insufficient_quota"}}"#, "payment");
        check(429, "Please reduce the length of the messages (TPM)", "rate limited");
        check(308, "", "rejected");
        for code in [408, 500, 502, 503, 529] {
            check(code, "<html><title>Bad gateway</title>", "unavailable");
        }
    }

    #[test]
    fn c1_an_overflow_is_one_under_every_code() {
        let words = "prompt is too long: 210000 tokens > 200000 maximum";
        for code in [400, 404, 422, 500, 503] {
            check(code, words, "overflow");
        }
        check(413, "<html><title>413 Request Entity Too Large</title>", "overflow");
        check(
            413,
            "Request too large for model `x` on tokens per minute (TPM)",
            "overflow",
        );
        check(
            429,
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000",
            "overflow",
        );
    }

    #[track_caller]
    fn check_object(object: &str, expected: Option<&str>) {
        let object = serde_json::from_str(object).unwrap();
        assert_eq!(of_object(&object).as_ref().map(class), expected, "{object}");
    }

    #[test]
    fn errors_inside_a_reply_are_sorted_alike() {
        check_object(r#"{"choices":[]}"#, None);
        check_object(r#"{"choices":[],"error":null}"#, None);
        check_object(r#"{"error":{"message":"x","code":429}}"#, Some("rate limited"));
        check_object(r#"{"error":{"message":"x","code":"402"}}"#, Some("payment"));
        check_object(
            r#"{"error":{"type":"overloaded_error","message":"x"}}"#,
            Some("unavailable"),
        );
        check_object(r#"{"error":"prompt is too long"}"#, Some("overflow"));
        check_object(
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            Some("overflow"),
        );
        check_object(
            r#"{"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"x"}}"#,
            Some("overflow"),
        );
        check_object(r#"{"object":"error","message":"x","code":400}"#, Some("rejected"));
        check_object(
            r#"{"error":{"type":"rate_limit_error","message":"x"}}"#,
            Some("rate limited"),
        );
    }

    #[test]
    fn errors_quote_the_server_in_short() {
        let error = of_status(400, r#"{"error":{"message":"bad\u200b tool"}}"#, None).to_string();
        assert_eq!(
            error,
            "the model server rejects the request: bad⟦U+200B⟧ tool (HTTP 400)"
        );
        let page = of_page("<!doctype html><title>Welcome to nginx!</title>").to_string();
        assert!(
            page.contains("titled \"Welcome to nginx!\"") && page.contains("model.base_url"),
            "{page}"
        );
        assert!(of_status(500, &"x".repeat(100_000), None).to_string().len() < 1000);
    }

    #[track_caller]
    fn check_wait(headers: &[(&'static str, &str)], expected: Option<Duration>) {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        assert_eq!(retry_after(&headers), expected);
    }

    #[test]
    fn waiting_times_are_read_in_every_form() {
        check_wait(&[("retry-after", "3")], Some(Duration::from_secs(3)));
        check_wait(&[("retry-after", "0.5")], Some(Duration::from_millis(500)));
        check_wait(
            &[("retry-after-ms", "20"), ("retry-after", "3")],
            Some(Duration::from_millis(20)),
        );
        check_wait(
            &[
                ("retry-after", "Wed, 21 Oct 2026 07:28:10 GMT"),
                ("date", "Wed, 21 Oct 2026 07:28:00 GMT"),
            ],
            Some(Duration::from_secs(10)),
        );
        check_wait(&[("retry-after", "-1")], None);
        check_wait(&[("retry-after", "soon")], None);
    }
}
