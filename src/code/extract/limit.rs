//! When the work on a file has to end: at a time of day, or when it has used so much of a core. Asked
//! by the reading of a tree. Never stops work that merely has to wait for a core.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Questions whether to go on for one look at the clocks; there are some thousand in a millisecond.
const QUESTIONS_A_LOOK: u32 = 32;

/// A limit that began when it was made, for the thread that made it.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    until: Instant,
    until_used: Duration,
    asked: u32,
}

impl Limit {
    /// At a time of day, and after so much work.
    pub fn new(until: Instant, work: Duration) -> Self {
        Self {
            until,
            until_used: used() + work,
            asked: 0,
        }
    }

    /// Whether to go on. To be asked very often: the clocks are read every so many times.
    pub fn flow(&mut self) -> ControlFlow<()> {
        self.asked = self.asked.wrapping_add(1);
        let looks = self.asked % QUESTIONS_A_LOOK == 1;
        if looks && (Instant::now() >= self.until || used() >= self.until_used) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// The time that cores have given to this thread.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(used.tv_sec).unwrap_or_default(),
        u32::try_from(used.tv_nsec).unwrap_or_default(),
    )
}
