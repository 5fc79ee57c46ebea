//! What a run does, in full: short runs on a simulated device, held against what was accepted.
//!
//! `cargo xtask logs` runs this, and `cargo xtask logs --accept` takes what is there now.
//! The device's memory follows from the shapes alone, clocks are set to zero, and what a network computes may differ in its
//! last digits, so that the snapshots are the same on every machine.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod jobs;
mod policies;
mod recorded;
mod redact;
mod run;
mod texts;
