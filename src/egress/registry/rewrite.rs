//! Replaces addresses in text that streams by. Called for answers of a registry's index. Never holds
//! more than the longest address back.

/// Replaces the first of each pair by the second.
#[derive(Debug)]
pub(super) struct Rewriter {
    pairs: Vec<(String, String)>,
    /// Bytes that may be the beginning of an address.
    kept: Vec<u8>,
    longest: usize,
}

impl Rewriter {
    pub(super) fn new(mut pairs: Vec<(String, String)>) -> Self {
        // An address may begin with another one.
        pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        let longest = pairs.first().map_or(0, |(from, _)| from.len());
        Self {
            pairs,
            kept: Vec::new(),
            longest,
        }
    }

    /// Takes the next piece and gives what is settled.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.kept.extend_from_slice(piece);
        let end = (self.kept.len() + 1).saturating_sub(self.longest.max(1));
        self.settle(end)
    }

    /// Gives the rest.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.settle(self.kept.len())
    }

    fn settle(&mut self, end: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(end);
        let mut at = 0;
        while at < end {
            let rest = &self.kept[at..];
            match self.pairs.iter().find(|(from, _)| rest.starts_with(from.as_bytes())) {
                Some((from, to)) => {
                    out.extend_from_slice(to.as_bytes());
                    at += from.len();
                }
                None => {
                    out.push(rest[0]);
                    at += 1;
                }
            }
        }
        self.kept.drain(..at);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_replaced_wherever_the_pieces_end() {
        let pairs = [
            ("https://a.example", "http://a.example"),
            ("https://a.example/b", "http://x"),
        ];
        let pairs: Vec<_> = pairs.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
        let text = "{\"t\":\"https://a.example/c\",\"u\":\"https://a.example/b\",\"v\":\"https://a.exam\"} https://a";
        let expected = "{\"t\":\"http://a.example/c\",\"u\":\"http://x\",\"v\":\"https://a.exam\"} https://a";
        for size in 1..=text.len() {
            let mut rewriter = Rewriter::new(pairs.clone());
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                out.extend(rewriter.push(piece));
                assert!(rewriter.kept.len() < rewriter.longest);
            }
            out.extend(rewriter.finish());
            assert_eq!(String::from_utf8(out).unwrap(), expected, "in pieces of {size}");
        }
        assert_eq!(
            Rewriter::new(Vec::new()).push(b"x"),
            b"x",
            "without pairs nothing is held back"
        );
    }
}
