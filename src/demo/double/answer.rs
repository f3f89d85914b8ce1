//! What a route gives back: a status, headers and JSON, or a refusal in GitHub's form.
//! Never touches a socket: `server` does.

use serde_json::{Value, json};

/// An answer to be sent.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// `Null` is an empty body.
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
        }
    }

    pub(super) fn ok(body: Value) -> Result<Self, Refused> {
        Ok(Self::new(200, body))
    }

    pub(super) fn created(body: Value) -> Result<Self, Refused> {
        Ok(Self::new(201, body))
    }

    pub(super) fn no_content() -> Result<Self, Refused> {
        Ok(Self::new(204, Value::Null))
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A refusal.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{status} {message}{}", .errors.iter().map(|error| format!(" {error}")).collect::<String>())]
pub(super) struct Refused {
    status: u16,
    message: String,
    errors: Vec<Value>,
    headers: Vec<(String, String)>,
}

impl Refused {
    pub(super) fn new(status: u16, message: &str) -> Self {
        Self {
            status,
            message: message.to_owned(),
            errors: Vec::new(),
            headers: Vec::new(),
        }
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn not_found() -> Self {
        Self::new(404, "Not Found")
    }

    /// 422 for a field.
    pub(super) fn invalid(resource: &str, field: &str, code: &str, message: Option<&str>) -> Self {
        let mut error = json!({"resource": resource, "field": field, "code": code});
        if let Some(message) = message {
            error["message"] = message.into();
        }
        let mut refused = Self::new(422, "Validation Failed");
        refused.errors.push(error);
        refused
    }

    /// 422 in the words of the part that reads diffs.
    pub(super) fn unprocessable(words: &str) -> Self {
        let mut refused = Self::new(422, "Unprocessable Entity");
        refused.errors.push(words.into());
        refused
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        let mut body = json!({
            "message": refused.message,
            "documentation_url": "https://docs.github.com/rest",
            "status": refused.status.to_string(),
        });
        if !refused.errors.is_empty() {
            body["errors"] = refused.errors.into();
        }
        Self {
            status: refused.status,
            headers: refused.headers,
            body,
        }
    }
}
