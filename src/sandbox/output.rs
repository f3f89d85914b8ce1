//! Output of a command, of which the beginning and the end are kept. Called by `process`.
//! Never holds more than it was made for, however much comes.

use std::collections::VecDeque;

use crate::text;

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

    /// Bytes in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// As plain text, with a line that says how much is missing.
    pub(super) fn into_text(mut self) -> String {
        let missing = self.total - (self.head.len() + self.tail.len()) as u64;
        let max_bytes = self.max_head + self.max_tail;
        if missing == 0 {
            self.head.extend(self.tail);
            return text::cap_middle(&text::plain_output(&String::from_utf8_lossy(&self.head)), max_bytes);
        }
        let plain = |bytes: &[u8], max_bytes| {
            let plain = text::plain_output(&String::from_utf8_lossy(bytes));
            text::cap_middle(&plain, max_bytes)
        };
        let head = plain(&self.head, self.max_head);
        let tail = plain(self.tail.make_contiguous(), self.max_tail);
        format!("{head}\n[… {missing} bytes left out …]\n{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chunks: &[&str], expected: &str) {
        let mut output = Output::new(9);
        chunks.iter().for_each(|chunk| output.push(chunk.as_bytes()));
        assert_eq!(output.into_text(), expected);
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
