//! A reply while it arrives: told apart as a stream, one object or a web page, and put together
//! piece by piece. Called by `endpoint`. Never waits, and never takes a reply for complete before the
//! server said why it ended.

use serde_json::Value;

use super::assembly::Assembly;
use super::failure;
use super::pricing;
use super::sse::{Decoder, SseEvent};
use crate::event::Usage;
use crate::model::{ChatReply, ChatRequest, ModelError};

/// A reply being read. What it is shows in its first byte, since content types lie: an object is
/// a plain reply or an error, `<` opens a web page, everything else is a stream of events.
#[derive(Default)]
pub(super) struct Reading {
    kind: Kind,
    decoder: Decoder,
    whole: Vec<u8>,
    assembly: Assembly,
    events: u32,
    done: bool,
    /// What came was no reply at all.
    refused: bool,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Kind {
    #[default]
    Unknown,
    Stream,
    Whole,
}

impl Reading {
    /// Whether the server said that it is done.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the reply is complete, even if the stream is not.
    pub(super) fn is_finished(&self) -> bool {
        self.assembly.is_finished()
    }

    /// The reply that was read, of this model.
    pub(super) fn into_reply(self, request: &ChatRequest, model: &str) -> ChatReply {
        self.assembly.into_reply(request, model)
    }

    /// What was said so far.
    pub(super) fn content(&self) -> &str {
        self.assembly.content()
    }

    /// What was thought so far.
    pub(super) fn reasoning(&self) -> &str {
        self.assembly.reasoning()
    }

    /// Tokens of the input that the server had in a cache.
    pub(super) fn cached_input(&self) -> u64 {
        self.assembly.cached_input()
    }

    /// Whether anything came of a reply that may have to be paid for.
    pub(super) fn has_begun(&self) -> bool {
        self.written_bytes() > 0
    }

    fn written_bytes(&self) -> usize {
        // An object that broke off may have been a reply; a page was none.
        let object = match self.whole.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{' | b'[') if self.assembly.written_bytes() == 0 && !self.refused => self.whole.len(),
            _ => 0,
        };
        self.assembly.written_bytes() + object
    }

    /// Takes the next bytes.
    pub(super) fn take(&mut self, chunk: &[u8]) -> Result<(), ModelError> {
        let first = chunk.iter().find(|byte| !byte.is_ascii_whitespace());
        if let (Kind::Unknown, Some(first)) = (self.kind, first) {
            self.kind = match first {
                b'{' | b'[' | b'<' => Kind::Whole,
                _ => Kind::Stream,
            };
        }
        if self.kind == Kind::Whole {
            self.whole.extend_from_slice(chunk);
            return Ok(());
        }
        for event in self.decoder.push(chunk) {
            self.take_event(&event)?;
        }
        Ok(())
    }

    /// The connection ended in good order; whether the reply did is seen here.
    pub(super) fn end(&mut self) -> Result<(), ModelError> {
        if self.kind == Kind::Whole {
            let text = String::from_utf8_lossy(&self.whole);
            if failure::is_page(&text) {
                return Err(failure::of_page(&text));
            }
            let object: Value = serde_json::from_str(&text)
                .map_err(|error| ModelError::Unavailable(format!("the reply is not complete JSON: {error}")))?;
            return self.take_object(&object);
        }
        if let Some(event) = std::mem::take(&mut self.decoder).finish() {
            self.take_event(&event)?;
        }
        if self.done || self.assembly.is_finished() {
            return Ok(());
        }
        Err(ModelError::Unavailable(match self.events {
            0 => "the server answered with something that is no stream and no JSON".to_owned(),
            _ => "the stream ended in the middle of the reply".to_owned(),
        }))
    }

    fn take_event(&mut self, event: &SseEvent) -> Result<(), ModelError> {
        match event.data.trim() {
            "" => Ok(()),
            "[DONE]" if self.assembly.is_finished() => {
                self.done = true;
                Ok(())
            }
            "[DONE]" => Err(ModelError::Unavailable("the stream ended without a reason".to_owned())),
            data => {
                let object: Value = serde_json::from_str(data).map_err(|error| {
                    ModelError::Unavailable(format!("the stream holds something that is not JSON: {error}"))
                })?;
                self.events += 1;
                if event.name == "error" && object["error"].is_null() {
                    return Err(failure::of_object(&serde_json::json!({ "error": object })).unwrap_or(
                        ModelError::Unavailable("the stream holds an error without words".to_owned()),
                    ));
                }
                self.absorb(&object)
            }
        }
    }

    fn take_object(&mut self, object: &Value) -> Result<(), ModelError> {
        self.absorb(object)?;
        if self.assembly.is_finished() || object["choices"][0].is_object() {
            return Ok(());
        }
        self.refused = true;
        Err(ModelError::Rejected(
            "the server answered with JSON that is no chat completion; check model.base_url".to_owned(),
        ))
    }

    fn absorb(&mut self, object: &Value) -> Result<(), ModelError> {
        if let Some(error) = failure::of_object(object) {
            self.refused = true;
            return Err(error);
        }
        if object["choices"][0]["finish_reason"] == "error" {
            return Err(ModelError::Unavailable("the server broke the reply off".to_owned()));
        }
        self.assembly.absorb(object);
        Ok(())
    }

    /// What the server may charge for a reply that never ended: what it says, else what was read,
    /// if it began to answer at all, and what was written.
    pub(super) fn spent(&self, request: &ChatRequest) -> Usage {
        match (self.assembly.usage(), self.written_bytes()) {
            (Some(usage), _) => usage,
            (None, 0) => Usage::default(),
            (None, written) => Usage {
                input_tokens: pricing::count_request(request),
                output_tokens: pricing::count_bytes(written),
                reported: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;
    use serde_json::json;

    fn request() -> ChatRequest {
        ChatRequest::new([Message::user("x")])
    }

    /// A stream of one tool call of about two kilobytes.
    fn stream() -> Vec<u8> {
        let arguments = json!({"path": "a.rs", "content": "fn main() { /* é */ }\n".repeat(40)}).to_string();
        let mut stream = String::from(": hello\n\n");
        let pieces: Vec<char> = arguments.chars().collect();
        for (at, piece) in pieces.chunks(60).enumerate() {
            let piece: String = piece.iter().collect();
            let mut call = json!({"index": 0, "function": {"arguments": piece}});
            if at == 0 {
                call["id"] = json!("call_1");
                call["function"]["name"] = json!("write_file");
            }
            stream += &format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}));
        }
        stream += "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n";
        stream += "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n";
        stream.into_bytes()
    }

    fn read(bytes: &[u8]) -> Result<ChatReply, ModelError> {
        let mut reading = Reading::default();
        reading.take(bytes)?;
        if !reading.is_done() {
            reading.end()?;
        }
        Ok(reading.into_reply(&request(), "m"))
    }

    #[test]
    fn m02_a_call_cut_at_any_byte_is_never_taken_for_a_whole_one() {
        let stream = stream();
        assert!(stream.len() > 2_000, "{}", stream.len());
        let whole = read(&stream).unwrap();
        let text = String::from_utf8_lossy(&stream);
        let reason_given = text.find("\"finish_reason\"").unwrap();
        for at in 0..stream.len() {
            match read(&stream[..at]) {
                Ok(reply) => {
                    assert!(at > reason_given, "cut at {at}");
                    assert_eq!(reply.tool_calls, whole.tool_calls, "cut at {at}");
                }
                Err(error) => assert!(failure::may_pass(&error), "cut at {at}: {error}"),
            }
        }
    }

    #[test]
    fn a_cut_reply_counts_what_it_may_have_cost() {
        let mut reading = Reading::default();
        let stream = stream();
        reading.take(&stream[..stream.len() / 2]).unwrap();
        let spent = reading.spent(&request());
        assert!(
            spent.input_tokens > 0 && spent.output_tokens > 50 && !spent.reported,
            "{spent:?}"
        );
        assert_eq!(Reading::default().spent(&request()), Usage::default());
        let mut broken = Reading::default();
        broken.take(br#"{"choices":[{"message":{"content":"half a"#).unwrap();
        assert!(broken.end().is_err() && broken.spent(&request()).output_tokens > 0);
        for refused in [r#"{"error":"no"}"#, r#"{"hello":"world"}"#, "<html>"] {
            let mut reading = Reading::default();
            reading.take(refused.as_bytes()).unwrap();
            assert!(reading.end().is_err() && !reading.has_begun(), "{refused}");
        }
        let mut paid = Reading::default();
        let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n";
        paid.take(usage.as_bytes()).unwrap();
        assert_eq!(paid.spent(&request()).output_tokens, 5);
    }
}
