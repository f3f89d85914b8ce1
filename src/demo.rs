//! What a newcomer needs to see the service work without an account anywhere: a GitHub of one's
//! own in this process. Called by the command line and by tests.
//! Never listens on anything but the loopback address.

pub mod double;
pub mod story;
