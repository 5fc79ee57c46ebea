//! Signals of another size, rate and form.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod mel;
mod resample;
mod resize;
