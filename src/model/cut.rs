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

/// The window of a server that read so much less than was sent that it must have left a part out.
/// Our count is cautious, but never four times too high; and hardly twice where what was read and
/// written fills one of the usual windows.
pub(super) fn window(usage: &Usage, sent: u64) -> Option<u64> {
    if !usage.reported || sent <= TELLING_TOKENS {
        return None;
    }
    let total = usage.input_tokens.saturating_add(usage.output_tokens);
    let fills = DEFAULT_WINDOWS
        .into_iter()
        .find(|window| usage.input_tokens <= *window && total * 10 >= window * 8);
    let far_less = usage.input_tokens.saturating_mul(4) < sent;
    let less_in_a_window = usage.input_tokens.saturating_mul(20) < sent.saturating_mul(11) && fills.is_some();
    (far_less || less_in_a_window).then(|| fills.unwrap_or(total.max(DEFAULT_WINDOWS[0])))
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
        for (read, wrote, sent, reported, expected) in [
            (4_096, 0, 20_000, true, Some(4_096)),
            (4_096, 150, 9_000, true, Some(4_096)),
            (3_900, 150, 9_000, true, Some(4_096)),
            (3_900, 150, 6_000, true, None),
            (6_000, 500, 20_000, true, None),
            (7_900, 200, 20_000, true, Some(8_192)),
            (2_000, 40, 6_000, true, Some(2_048)),
            (100, 10, 20_000, true, Some(2_048)),
            (100, 10, 3_000, true, None),
            (0, 0, 20_000, false, None),
        ] {
            let usage = Usage {
                input_tokens: read,
                output_tokens: wrote,
                reported,
            };
            assert_eq!(window(&usage, sent), expected, "{read} and {wrote} of {sent}");
        }
    }
}
