//! The parts of unattended work by themselves, on both databases, with a clock that is moved by hand.

mod alerts;
