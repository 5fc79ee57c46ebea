//! The crate as its caller sees it, with snapshots of everything that a person reads.

mod answers;
mod browser;
mod changes;
mod comparison;
mod csv;
mod exposition;
mod heat;
mod history;
mod html;
mod log;
mod plan;
mod plots;
#[cfg(feature = "png")]
mod png;
mod progress;
mod report;
mod run;
mod settings;
mod tasks;
mod tensorboard;
mod verdicts;
mod view;
