//! The crate as its caller sees it, with snapshots of everything that a person reads.

mod log;
mod plots;
mod progress;
mod report;
mod run;
