//! The small trainings that faults happen to.

use std::path::Path;

/// Images to train on (one more is held out), and crops of each in an epoch.
const CROPS: usize = 40;
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

    /// Returns the arguments of `plimsoll train`, but for those that say whether it goes on.
    pub(crate) fn args(self, data: &Path, out: &Path) -> Vec<String> {
        let mut args = vec!["train".to_owned(), "--job".to_owned(), "sr".to_owned()];
        args.extend(["--data".to_owned(), data.display().to_string(), "--out".to_owned(), out.display().to_string()]);
        args.extend(["--seed".to_owned(), self.seed.to_string(), "--steps".to_owned(), self.steps().to_string()]);
        let (effective, channels, checkpoint, validate, capacity) = match self.size {
            Size::Small => (16, 8, CHECKPOINT_EVERY, 30, "6 MiB"),
            Size::Timed => (32, 16, 50, 100, "40 MiB"),
        };
        let mut sets = vec![
            format!("memory.capacity={capacity}"),
            format!("sr.channels={channels}"),
            "sr.blocks=1".to_owned(),
            format!("sr.crops_per_image={CROPS}"),
            "sr.validation_tile=32".to_owned(),
            format!("batch.effective_batch_size={effective}"),
            "batch.patch_min=24".to_owned(),
            "batch.patch_max=24".to_owned(),
            "batch.batch_min=2".to_owned(),
            "batch.batch_max=16".to_owned(),
            "policy.reopen_after_steps=10".to_owned(),
            "train.warm_up_steps=5".to_owned(),
            format!("train.checkpoint_every={checkpoint}"),
            format!("train.validate_every={validate}"),
            "train.keep_checkpoints=3".to_owned(),
            format!("train.optimizer_recovery={}", if self.keeps_copy { "keep" } else { "restore" }),
        ];
        match self.mode {
            Mode::Deterministic => {
                sets.extend(["batch.batch_size=8".to_owned(), "train.deterministic=true".to_owned()]);
            }
            Mode::Adaptive => (),
            Mode::Fixed(n) => sets.push(format!("batch.batch_size={n}")),
        }
        args.extend(sets.into_iter().flat_map(|it| ["--set".to_owned(), it]));
        args
    }
}
