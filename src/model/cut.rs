//! Notices a server that leaves out a part of long conversations and says nothing, as Ollama does
//! with its default `num_ctx`. Called by `endpoint`. Never judges short requests, in which small
//! differences weigh too much.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use crate::event::Usage;
use crate::model::ChatRequest;

/// Below this count, small differences weigh too much to say anything.
const TELLING_TOKENS: u64 = 4_000;

/// Windows that local servers have unless somebody sets another.
const DEFAULT_WINDOWS: [u64; 4] = [2_048, 4_096, 8_192, 16_384];

/// As many conversations are remembered as were told of.
const MAX_REMEMBERED: usize = 64;

/// A part of the conversation that the server left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// The window that the server seems to have, where what it read fills one of the usual ones.
    pub(super) window: Option<u64>,
}

/// Whether a server read so much less than was sent that it must have left a part out. Our count is
/// cautious, but never four times too high; and hardly twice where what was read and written fills
/// one of the usual windows. Some servers count what they had in a cache apart.
pub(super) fn of(usage: &Usage, cached_input: u64, sent: u64) -> Option<Cut> {
    if !usage.reported || sent <= TELLING_TOKENS {
        return None;
    }
    let read = usage.input_tokens.saturating_add(cached_input);
    let total = read.saturating_add(usage.output_tokens);
    let window = DEFAULT_WINDOWS
        .into_iter()
        .find(|window| read <= *window && total * 10 >= window * 8);
    let far_less = read.saturating_mul(4) < sent;
    let less_in_a_window = read.saturating_mul(20) < sent.saturating_mul(11) && window.is_some();
    (far_less || less_in_a_window).then_some(Cut { window })
}

/// Conversations whose people were told.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<VecDeque<u64>>);

impl Told {
    /// Whether this conversation has not been told of yet; from now on it has.
    pub(super) fn first_time(&self, request: &ChatRequest) -> bool {
        let mut hasher = DefaultHasher::new();
        for message in request.messages.iter().take(2) {
            message.content.hash(&mut hasher);
        }
        let this = hasher.finish();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.contains(&this) {
            return false;
        }
        if told.len() >= MAX_REMEMBERED {
            told.pop_front();
        }
        told.push_back(this);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_l37_a_server_that_cuts_silently_is_noticed() {
        let whole = None;
        let cut = |window| Some(Cut { window });
        for (read, wrote, cached, sent, reported, expected) in [
            (4_096, 0, 0, 20_000, true, cut(Some(4_096))),
            (4_096, 150, 0, 9_000, true, cut(Some(4_096))),
            (3_900, 150, 0, 9_000, true, cut(Some(4_096))),
            (3_900, 150, 0, 6_000, true, whole),
            (6_000, 500, 0, 20_000, true, whole),
            (7_900, 200, 0, 20_000, true, cut(Some(8_192))),
            (2_000, 40, 0, 6_000, true, cut(Some(2_048))),
            (100, 10, 0, 20_000, true, cut(None)),
            (100, 10, 14_000, 20_000, true, whole),
            (100, 10, 0, 3_000, true, whole),
            (0, 0, 0, 20_000, false, whole),
        ] {
            let usage = Usage {
                input_tokens: read,
                output_tokens: wrote,
                reported,
            };
            assert_eq!(of(&usage, cached, sent), expected, "{read} and {wrote} of {sent}");
        }
    }
}
