//! Failpoints: named moments at which a test makes the program crash, fail or hang, written
//! `fp!("place.moment")`. They are what the stories of `tests/it/fault` arm. Without the feature
//! `failpoints` the macro is nothing, and a release cannot be built with it. Never decides anything
//! by itself: a point that nobody armed does nothing.

// The crate `fail` was looked at: its pauses block a thread of the runtime, it cannot end the
// process (a panic of one job is caught by us), its counts say how often a point acts and not at
// which hit, and it reads the environment by itself. What remains of it is shorter than its use.

#[cfg(feature = "failpoints")]
mod armed;

#[cfg(feature = "failpoints")]
pub use armed::{Injected, arm, at};

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("failpoints are for tests; a release has none");

/// A moment at which a test may crash, fail or hang this async function. What a failure is here is
/// what the function's own error makes of [`Injected`]. With `if CONDITION,` in front of the name
/// the moment counts only then.
#[cfg(feature = "failpoints")]
macro_rules! fp {
    (if $counts:expr, $name:literal) => {
        if $counts {
            $crate::fault::at($name).await?;
        }
    };
    ($name:literal) => {
        $crate::fault::at($name).await?;
    };
}

#[cfg(not(feature = "failpoints"))]
macro_rules! fp {
    ($($what:tt)*) => {};
}
