//! What jobs whose samples have lengths have in common.

use plimsoll_sampler::StepSize;
use plimsoll_train::{Job, Lengths, Source, known_extents};
use plimsoll_types::Extent;

use crate::exit::UserError;
use crate::loading::Loading;
use crate::prepare::{Prepared, covering, told};
use crate::settings::{Mixed, Notes, Settings};
use crate::sizes::{Buckets, Sizes};

/// Extents of validation batches that are planned; any other is held against one that covers it.
const INFERENCE_EXTENTS: usize = 3;

/// What a job's data says of itself.
pub(super) struct About {
    /// Extent of each training sample.
    pub(super) extents: Vec<Extent>,
    /// Extents of validation batches, from small to large; none where those of training hold all.
    pub(super) validation_extents: Vec<Extent>,
    /// Whether a validation leaves out what does not fit, where that is allowed.
    pub(super) skips_held_out: bool,
    pub(super) lines: Vec<String>,
    pub(super) skipped: Vec<String>,
    pub(super) files: Vec<(&'static str, String)>,
}

/// Chooses the cells of a job's samples, and prepares the rest.
pub(super) fn prepare<J: Job>(
    settings: &Settings,
    loading: Loading<'_>,
    job: J,
    about: About,
) -> Result<Prepared<J>, UserError> {
    let taken = loading.taken();
    let padded = settings.cells(&about.extents)?;
    let validated = if about.validation_extents.is_empty() { &padded[..] } else { &about.validation_extents };
    let validated = covering(validated, INFERENCE_EXTENTS);
    let row_len = if let Lengths::Packed { row_len, .. } = job.source().lengths() { Some(row_len) } else { None };
    let Buckets { cells, batch_max } = settings.buckets(row_len.map_or(padded, |it| vec![it].into()))?;
    let largest = cells.last().copied().unwrap_or(Extent::new(1));
    let rows = match row_len {
        Some(row_len) => format!("up to {batch_max} packed rows of {row_len} {}", job.unit_of_length()),
        None => format!("up to {batch_max}, padded to {}", told(&cells)),
    };
    let mut loader = settings.loader(largest, cells.clone());
    let source = job.source();
    let together = settings.together(&source.lengths(), &loader, |id| source.describe(id))?;
    let chosen = format!("{rows}, {}{together}{}", settings.step(), settings.arranged());
    settings.check_weights(job.tasks())?;
    settings.mix(&Mixed::of(&job), &mut loader.tasks)?;
    Ok(Prepared {
        job: loading.watched(job),
        harness: loading.harness,
        loaded: taken,
        probe: loading.probe,
        capacity: loading.capacity,
        loader,
        largest_sample: largest,
        inference_extents: validated,
        extents: about.extents,
        skips_held_out: about.skips_held_out,
        sizes: Sizes::Padded(Buckets { cells, batch_max }),
        notes: Notes { chosen, warnings: Vec::new() },
        data: about.lines,
        skipped: about.skipped,
        files: about.files,
    })
}

/// Says how many groups of how many samples stay together, where any do.
pub(super) fn together<J: Job>(job: &J) -> String {
    let Lengths::Grouped(groups) = job.source().lengths() else { return String::new() };
    let most = groups.most_weight(StepSize::Samples(1));
    format!("; {} groups of up to {most} to train on stay together", groups.len())
}

/// Returns the extents that a job knows.
pub(super) fn extents<J: Job>(job: &J) -> Vec<Extent> {
    known_extents(&*job.source()).flatten().collect()
}
