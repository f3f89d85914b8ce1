//! A decoder of server-sent events: bytes in as the network cuts them, events out. Called by
//! `client`. Accepts every line end, a byte order mark, comments, data over several lines, and
//! characters cut anywhere. Never limits the size of a stream: its caller counts the bytes.

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SseEvent {
    /// The `event` field, empty for plain messages.
    pub(super) name: String,
    /// The `data` lines, joined by line feeds.
    pub(super) data: String,
}

/// Turns bytes into events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    past_first_line: bool,
    pending: SseEvent,
    has_data: bool,
}

impl Decoder {
    /// Takes the next bytes and returns the events they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        for &byte in bytes {
            let joined = self.after_cr && byte == b'\n';
            self.after_cr = byte == b'\r';
            match byte {
                b'\n' if joined => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => self.line.push(byte),
            }
        }
        events
    }

    /// The stream ended: an event without its closing empty line counts all the same, since some
    /// servers leave that line out.
    pub(super) fn finish(mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_event()
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let bytes = std::mem::take(&mut self.line);
        let mut bytes = bytes.as_slice();
        if !std::mem::replace(&mut self.past_first_line, true) {
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        if bytes.is_empty() {
            return self.end_event();
        }
        // Decoded a line at a time: a character that the network cut is whole again here.
        let line = String::from_utf8_lossy(bytes);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.pending.data.push('\n');
                }
                self.pending.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.pending.name),
            // A comment (empty field name), `id`, `retry`, or something newer than this program.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.pending);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(parts: &[&[u8]]) -> Vec<SseEvent> {
        let mut decoder = Decoder::default();
        let mut events: Vec<SseEvent> = parts.iter().flat_map(|part| decoder.push(part)).collect();
        events.extend(decoder.finish());
        events
    }

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        let data: Vec<String> = decode(&[stream.as_bytes()])
            .into_iter()
            .map(|event| event.data)
            .collect();
        assert_eq!(data, expected, "{stream:?}");
    }

    #[test]
    fn streams_of_every_style_are_read() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\r", &["a", "b"]);
        check("\u{feff}data:a\n\n", &["a"]);
        check(": keep-alive\n\ndata: a\n\n", &["a"]);
        check("data: one\ndata: two\n\n", &["one\ntwo"]);
        check("data\n\n", &[""]);
        check("data:  two spaces\n\n", &[" two spaces"]);
        check("id: 7\nretry: 10\nnew: thing\n\ndata: a\n\n", &["a"]);
        check("data: without its empty line", &["without its empty line"]);
        check("event: ping\n\n", &[]);
    }

    #[test]
    fn an_event_keeps_its_name_and_gives_it_to_no_other() {
        let events = decode(&[b"event: error\ndata: x\n\ndata: y\n\n"]);
        assert_eq!(events[0].name, "error");
        assert_eq!(events[1].name, "");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_network_cuts(
            texts in prop::collection::vec("[^\r\n\u{feff}]{0,12}", 1..6),
            ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r", "\r\n"]), 12),
            cuts in prop::collection::vec(0usize..200, 0..12),
        ) {
            let mut stream = String::new();
            for (at, text) in texts.iter().enumerate() {
                stream += &format!("data: {text}{}{}", ends[at * 2 % 12], ends[at * 2 % 12]);
            }
            let bytes = stream.as_bytes();
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let parts: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let data: Vec<String> = decode(&parts).into_iter().map(|event| event.data).collect();
            prop_assert_eq!(data, texts);
        }

        #[test]
        fn no_bytes_at_all_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            decode(&[&bytes]);
        }
    }
}
