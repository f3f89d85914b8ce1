//! What models can do, by patterns of their names. Called by `client` and `stub`. Never asks a
//! server.

use crate::config::ModelConfig;
use crate::model::{EditFormat, Profile};

/// The profile of the configured model.
pub(super) fn of(config: &ModelConfig) -> Profile {
    Profile {
        context_window: 128_000,
        max_output_tokens: config.max_output_tokens,
        output_ceiling: config.max_output_tokens.saturating_mul(4),
        edit_format: EditFormat::Replace,
    }
}
