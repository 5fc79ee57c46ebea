//! The search on devices that nobody has.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod absurd;
mod deadly;
mod device;
mod planned;
mod random;
mod replay;
mod table;
