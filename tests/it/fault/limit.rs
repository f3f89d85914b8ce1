//! How soon work goes on after a fault, by the configuration alone: what the stories of faults are
//! judged by, and what the program's own settings come to. Never a number that was tuned to a machine.

use std::time::Duration;

use forgehand::config::{Config, ConfigSources, load};
use forgehand::github::turn_patience;
use forgehand::queue::recover_every;

/// What is promised with the program's own settings.
const PROMISED: Duration = Duration::from_secs(4 * 60);
/// A pause before another attempt is up to one and a half of what is configured.
const LONGEST_JITTER: f64 = 1.5;

/// The longest time from a fault until nothing waits for anything any more, where the job has met so
/// many: a lease that nobody renews has to end, be found and be claimed; what failed is tried again
/// after a pause; and a call of which nobody knows whether it was done is waited for.
pub fn goes_on_within(config: &Config, faults: u32) -> Duration {
    let (queue, github) = (&config.queue, &config.github);
    let claimed_again = queue.lease_seconds + recover_every(queue) + queue.poll_seconds;
    let pause = queue.retry_seconds * 2_u32.pow(faults.saturating_sub(1));
    // W of RELIABILITY.md, and the turns that the call waited for before.
    let calls = (turn_patience(github.call_timeout_seconds) + github.call_timeout_seconds) * 2;
    claimed_again + pause.mul_f64(LONGEST_JITTER) + calls + github.list_lag_seconds
}

#[test]
fn fi2_the_default_settings_go_on_within_four_minutes() {
    let config = load(&ConfigSources::default()).unwrap();
    let within = goes_on_within(&config, 1);
    eprintln!("with the default settings everything goes on {within:?} after a fault, at the latest");
    assert!(within <= PROMISED, "{within:?}");
    // A lease alone is back in 72 s, as RELIABILITY.md counts.
    let queue = &config.queue;
    let back = queue.lease_seconds + recover_every(queue) + queue.poll_seconds;
    assert_eq!(back, Duration::from_secs(72));
}
