//! The crate as its caller sees it, with snapshots of everything that a person reads.

mod answers;
mod changes;
mod heat;
mod html;
mod log;
mod plan;
mod plots;
mod progress;
mod report;
mod run;
mod settings;
mod tasks;
mod verdicts;
