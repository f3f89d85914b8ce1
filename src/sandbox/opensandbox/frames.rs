//! The events of a command as they come over the wire: documents with an empty line behind each,
//! with or without the `data:` of the standard. Called by `execd`. Never holds an endless frame.

use super::execd::Event;

/// Largest frame; a line of a helper has a fifteenth of it.
const MAX_FRAME_BYTES: usize = 512 * 1024;

/// Bytes that came and were not understood yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// How far they were looked through for an end.
    looked: usize,
    ended: bool,
}

impl Frames {
    /// Of a stream that gives nothing more.
    pub(super) fn ended() -> Self {
        Self {
            ended: true,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        // Some servers end lines as on another system.
        self.bytes.extend(bytes.iter().filter(|byte| **byte != b'\r'));
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next event, if it is there as a whole.
    pub(super) fn next(&mut self) -> Result<Option<Event>, String> {
        while let Some(frame) = self.frame()? {
            let payload = payload(&frame);
            if payload.trim_ascii().is_empty() {
                continue;
            }
            let event = serde_json::from_slice(&payload);
            return event
                .map(Some)
                .map_err(|error| format!("an event makes no sense: {error}"));
        }
        Ok(None)
    }

    fn frame(&mut self) -> Result<Option<Vec<u8>>, String> {
        let from = self.looked.saturating_sub(1);
        let end = self.bytes[from..].windows(2).position(|pair| pair == b"\n\n");
        if let Some(end) = end {
            let frame = self.bytes.drain(..from + end + 2).collect();
            self.looked = 0;
            return Ok(Some(frame));
        }
        self.looked = self.bytes.len();
        if self.bytes.len() > MAX_FRAME_BYTES {
            return Err(format!("an event has more than {MAX_FRAME_BYTES} bytes"));
        }
        if self.ended && !self.bytes.is_empty() {
            self.looked = 0;
            return Ok(Some(std::mem::take(&mut self.bytes)));
        }
        Ok(None)
    }
}

/// What is left of a frame without what the standard puts around it.
fn payload(frame: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    for line in frame.split(|byte| *byte == b'\n') {
        let is_other = [&b":"[..], b"event:", b"id:", b"retry:"]
            .iter()
            .any(|field| line.starts_with(field));
        if is_other {
            continue;
        }
        let line = line.strip_prefix(b"data:").unwrap_or(line);
        payload.extend_from_slice(line.strip_prefix(b" ").unwrap_or(line));
        payload.push(b'\n');
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(bytes: &[u8], step: usize) -> Result<Vec<(String, String)>, String> {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(step) {
            frames.push(piece);
            while let Some(event) = frames.next()? {
                found.push((event.kind, event.text));
            }
        }
        frames.end();
        while let Some(event) = frames.next()? {
            found.push((event.kind, event.text));
        }
        Ok(found)
    }

    #[test]
    fn frames_are_understood_bare_and_with_the_standards_words() {
        let bare = b"{\"type\":\"init\",\"text\":\"7\"}\n\n{\"type\":\"stdout\",\"text\":\"a\\n\\nb\"}\n\n{\"type\":\"ping\"}\n\n";
        let standard = b": hello\n\nevent: x\ndata: {\"type\":\"init\",\"text\":\"7\"}\n\ndata:{\"type\":\"stdout\",\n\
                         data: \"text\":\"a\\n\\nb\"}\r\n\r\ndata: {\"type\":\"ping\"}";
        let expected =
            [("init", "7"), ("stdout", "a\n\nb"), ("ping", "")].map(|(kind, text)| (kind.to_owned(), text.to_owned()));
        for step in [1, 2, 7, 1000] {
            assert_eq!(kinds(bare, step).unwrap(), expected, "{step}");
            assert_eq!(kinds(standard, step).unwrap(), expected, "{step}");
        }
    }

    #[test]
    fn garbage_and_endless_frames_are_errors() {
        assert!(kinds(b"<html>\n\n", 3).is_err());
        assert!(kinds(&vec![b'x'; 2 * MAX_FRAME_BYTES], 1000).is_err());
        assert_eq!(kinds(b"\n\n\n\n", 1).unwrap(), []);
    }
}
