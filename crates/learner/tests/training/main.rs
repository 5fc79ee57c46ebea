//! Trainings as Burn's own, and trainings that go wrong.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod burns_own;
