//! The small trainings that faults happen to.

use std::path::Path;

use crate::subject::Subject;

/// Steps, several epochs.
pub(crate) const STEPS: u64 = 60;
/// Steps between two checkpoints.
pub(crate) const CHECKPOINT_EVERY: u64 = 5;
/// Seeds of the trainings; each has one undisturbed run to be compared with.
pub(crate) const SEEDS: u64 = 4;

/// How micro-batches are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// They are given, and no reading of memory changes them.
    Deterministic,
    /// The policy chooses.
    Adaptive,
    /// They are given, and memory is watched.
    Fixed(u32),
}

/// A training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    pub(crate) subject: Subject,
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) size: Size,
    /// Whether a copy of the state is kept until the optimizer's step is known to be good.
    pub(crate) keeps_copy: bool,
}

/// How large a training is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    /// Under a second.
    Small,
    /// Steps long enough to be timed, for the picture.
    Timed,
}

impl Setting {
    /// Returns the steps of the training.
    pub(crate) const fn steps(self) -> u64 {
        match self.size {
            Size::Small => STEPS,
            Size::Timed => 250,
        }
    }

    /// Whether steps have the samples of the undisturbed run.
    pub(crate) fn has_given_steps(self) -> bool {
        self.subject.has_given_steps() || self.mode == Mode::Deterministic
    }

    /// Returns the arguments of `plimsoll train`, but for those that say whether it goes on.
    pub(crate) fn args(self, data: &Path, out: &Path) -> Vec<String> {
        let mut args = vec!["train".to_owned()];
        args.extend(["--data".to_owned(), data.display().to_string(), "--out".to_owned(), out.display().to_string()]);
        args.extend(["--seed".to_owned(), self.seed.to_string(), "--steps".to_owned(), self.steps().to_string()]);
        args.extend(self.subject.args());
        let (checkpoint, validate) = match self.size {
            Size::Small => (CHECKPOINT_EVERY, 30),
            Size::Timed => (50, 100),
        };
        let mut sets = self.sizes();
        sets.extend([
            "policy.reopen_after_steps=10".to_owned(),
            "train.warm_up_steps=5".to_owned(),
            format!("train.checkpoint_every={checkpoint}"),
            format!("train.validate_every={validate}"),
            "train.keep_checkpoints=3".to_owned(),
            format!("train.optimizer_recovery={}", if self.keeps_copy { "keep" } else { "restore" }),
        ]);
        match self.mode {
            Mode::Deterministic => {
                let batch = self.subject.batch();
                sets.extend([format!("batch.batch_size={batch}"), "train.deterministic=true".to_owned()]);
            }
            Mode::Adaptive => (),
            Mode::Fixed(n) => sets.push(format!("batch.batch_size={n}")),
        }
        args.extend(sets.into_iter().flat_map(|it| ["--set".to_owned(), it]));
        args
    }

    /// Returns what makes `sr` as large as is wanted; the others have one size.
    fn sizes(self) -> Vec<String> {
        if !self.subject.has_given_steps() {
            return Vec::new();
        }
        let (effective, channels, capacity) = match self.size {
            // What is left when the capacity falls to 0.6 of it holds a sample, and what each thread packs products in, which is
            // as large as the second cache of a core.
            Size::Small => (16, 8, "14 MiB"),
            Size::Timed => (32, 16, "40 MiB"),
        };
        vec![
            format!("memory.capacity={capacity}"),
            format!("sr.channels={channels}"),
            format!("batch.effective_batch_size={effective}"),
        ]
    }
}
