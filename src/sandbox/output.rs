//! Output of a command, of which the beginning and the end are kept. Called by `process`.
//! Never holds more than it was made for, however much comes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::text;

/// Output that is read while it still comes.
#[derive(Debug, Clone)]
pub(super) struct SharedOutput(Arc<Mutex<Output>>);

impl SharedOutput {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Output::new(max_bytes))))
    }

    pub(super) fn push(&self, bytes: &[u8]) {
        self.lock().push(bytes);
    }

    /// So many bytes came and were left out before they reached us.
    pub(super) fn skip(&self, bytes: u64) {
        self.lock().skip(bytes);
    }

    /// Bytes in all.
    pub(super) fn total(&self) -> u64 {
        self.lock().total
    }

    /// All that is kept, as plain text.
    pub(super) fn text(&self) -> String {
        self.since(0).0
    }

    /// What came after so many bytes, as plain text, and how many there are now.
    pub(super) fn since(&self, at: u64) -> (String, u64) {
        let mut output = self.lock();
        (output.since(at), output.total)
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Head and tail of a stream of bytes.
#[derive(Debug)]
pub(super) struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    max_head: usize,
    max_tail: usize,
    total: u64,
}

impl Output {
    /// Keeps `max_bytes`: a third of them from the beginning, since errors stand at the end.
    pub(super) fn new(max_bytes: usize) -> Self {
        let max_head = max_bytes / 3;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            max_head,
            max_tail: max_bytes - max_head,
            total: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.max_head - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.max_tail)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.max_tail);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// What is missing lies before the tail, which begins anew.
    fn skip(&mut self, bytes: u64) {
        if bytes > 0 {
            self.tail.clear();
            self.total = self.total.saturating_add(bytes);
        }
    }

    /// What came after so many bytes, with a line that says how much of it is missing.
    fn since(&mut self, at: u64) -> String {
        let tail_start = self.total - self.tail.len() as u64;
        let from = |start: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
        let head = self.head.get(from(0)..).unwrap_or_default();
        let tail = self.tail.make_contiguous();
        let tail = tail.get(from(tail_start)..).unwrap_or_default();
        let missing = tail_start.saturating_sub(at.max(self.head.len() as u64));
        let plain = |bytes: &[u8], max_bytes| {
            let plain = text::plain_output(&String::from_utf8_lossy(bytes));
            text::cap_middle(&plain, max_bytes)
        };
        if missing == 0 {
            return plain(&[head, tail].concat(), self.max_head + self.max_tail);
        }
        let (head, tail) = (plain(head, self.max_head), plain(tail, self.max_tail));
        let gap = if head.is_empty() { "" } else { "\n" };
        format!("{head}{gap}[… {missing} bytes left out …]\n{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chunks: &[&str], expected: &str) {
        let mut output = Output::new(9);
        chunks.iter().for_each(|chunk| output.push(chunk.as_bytes()));
        assert_eq!(output.since(0), expected);
    }

    #[test]
    fn what_is_new_is_told_from_what_was_read() {
        let mut output = Output::new(9);
        for (chunk, at, expected) in [
            ("abc", 0, "abc"),
            ("defg", 3, "defg"),
            ("", 7, ""),
            ("hijklmnopqrst", 7, "[… 7 bytes left out …]\nopqrst"),
            ("", 19, "t"),
            ("", 2, "c\n[… 11 bytes left out …]\nopqrst"),
            ("", 900, ""),
        ] {
            output.push(chunk.as_bytes());
            assert_eq!(output.since(at), expected, "{chunk:?} after {at}");
        }
    }

    #[test]
    fn head_and_tail_are_kept() {
        check(&[], "");
        check(&["abc", "def", "ghi"], "abcdefghi");
        check(&["abcdefghijkl"], "abc\n[… 3 bytes left out …]\nghijkl");
        check(
            &["ab", "cd", "efghijklmnop", "q"],
            "abc\n[… 8 bytes left out …]\nlmnopq",
        );
        check(&["\u{1b}[1mé"], "é");
    }
}
