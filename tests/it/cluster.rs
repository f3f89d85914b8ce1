//! Stories of many processes on one PostgreSQL: networks that are cut, machines with wrong clocks, old and
//! new programs side by side, and a long time under small faults.
//! Never a story about one process that dies: those are in `crash`.

mod clocks;
mod mixed;
mod network;
mod partition;
mod replicas;
mod soak;

use std::time::Duration;

/// Longest time until something ends after the last disturbance.
const PATIENCE: Duration = Duration::from_secs(120);
