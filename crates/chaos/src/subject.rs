//! What trains: the four jobs, and several ranks.

use std::fs;
use std::io;
use std::path::Path;

use crate::Failed;
use crate::images;

/// A job, with the data and the sizes that let its training take about a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// `sr` on one device.
    Sr,
    /// `sr` on two devices of one process.
    Ranks,
    /// `multitask`, whose samples are padded.
    Multitask,
    /// `sequence`, which is streamed.
    Sequence,
    /// `text`, whose steps count tokens.
    Text,
}

impl Subject {
    /// All of them, in the order in which rounds take turns.
    pub(crate) const ALL: [Self; 5] = [Self::Sr, Self::Ranks, Self::Multitask, Self::Sequence, Self::Text];

    /// Its name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sr => "sr",
            Self::Ranks => "sr on two ranks",
            Self::Multitask => "multitask",
            Self::Sequence => "sequence, streamed",
            Self::Text => "text",
        }
    }

    /// Whether a step has the same samples whatever the memory holds: where samples are padded, a step is filled with
    /// batches that fit.
    pub(crate) const fn has_given_steps(self) -> bool {
        matches!(self, Self::Sr | Self::Ranks)
    }

    /// Samples of a micro-batch that nobody adapts.
    pub(crate) const fn batch(self) -> u32 {
        if self.has_given_steps() { 8 } else { 4 }
    }

    /// Samples from which on a micro-batch is so large that the allocator refuses it.
    pub(crate) const fn refused(self) -> u64 {
        if self.has_given_steps() { 8 } else { 3 }
    }

    /// Puts its data into a folder of its own.
    pub(crate) fn write_data(self, folder: &Path) -> Result<(), Failed> {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        match self {
            Self::Sr | Self::Ranks => images::write(folder),
            Self::Multitask | Self::Sequence | Self::Text => Ok(copy(&fixtures.join(self.job()), folder)?),
        }
    }

    /// Returns the arguments of `plimsoll train` that belong to it.
    pub(crate) fn args(self) -> Vec<String> {
        let devices = match self {
            Self::Ranks => &["--device", "flex, flex"][..],
            _ => &[],
        };
        let words = ["--job", self.job()].into_iter().chain(devices.iter().copied());
        let sets = self.sets().iter().flat_map(|it| ["--set", it]);
        words.chain(sets).map(ToOwned::to_owned).collect()
    }

    const fn job(self) -> &'static str {
        match self {
            Self::Sr | Self::Ranks => "sr",
            Self::Multitask => "multitask",
            Self::Sequence => "sequence",
            Self::Text => "text",
        }
    }

    const fn sets(self) -> &'static [&'static str] {
        match self {
            Self::Sr | Self::Ranks => &[
                "sr.blocks=1",
                "sr.crops_per_image=40",
                "sr.validation_tile=32",
                "batch.patch_min=24",
                "batch.patch_max=24",
                "batch.batch_min=2",
                "batch.batch_max=16",
            ],
            Self::Multitask => &[
                "multitask.channels=4",
                "multitask.features=16",
                "multitask.image_size=16",
                "batch.effective_batch_size=24",
                "memory.capacity=14 MiB",
            ],
            Self::Sequence => &[
                "sequence.heads=1",
                "sequence.head_width=4",
                "sequence.blocks=1",
                "batch.effective_batch_size=24",
                "data.look_ahead=64",
                "memory.capacity=16 MiB",
            ],
            Self::Text => &[
                "text.vocabulary=512",
                "text.longest=64",
                "text.layers=1",
                "text.width=16",
                "text.heads=1",
                "batch.effective_batch_size=2048",
                "memory.capacity=12 MiB",
            ],
        }
    }
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() { copy(&entry.path(), &to)? } else { fs::copy(entry.path(), to).map(drop)? }
    }
    Ok(())
}
