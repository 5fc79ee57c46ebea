//! What jobs whose samples have lengths have in common.

use plimsoll_sampler::{BatchPlanner, PlanConfig, SamplerError, StreamLimits, StreamPlanner};
use plimsoll_train::{Job, Lengths, LoaderConfig, Source};
use plimsoll_types::Bytes;

use crate::exit::UserError;
use crate::loading::Loading;
use crate::prepare::{Prepared, thinned, told};
use crate::settings::{Notes, Settings};
use crate::sizes::{Buckets, Sizes};

/// Edges of validation batches that are planned; a batch between two of them is held against the longer one.
const INFERENCE_EDGES: usize = 3;

/// What a job's data says of itself.
pub(super) struct About {
    /// Length of each training sample.
    pub(super) lengths: Vec<u32>,
    /// Edges of validation batches; none where those of training hold all.
    pub(super) validation_edges: Vec<u32>,
    /// Whether a validation leaves out what does not fit, where that is allowed.
    pub(super) skips_held_out: bool,
    pub(super) lines: Vec<String>,
    pub(super) skipped: Vec<String>,
    pub(super) files: Vec<(&'static str, String)>,
}

/// Chooses the edges of a job's samples, and prepares the rest.
pub(super) fn prepare<J: Job>(
    settings: &Settings,
    loading: Loading<'_>,
    job: J,
    about: About,
) -> Result<Prepared<J>, UserError> {
    let taken = loading.taken();
    let padded = settings.edges(&about.lengths)?;
    let validation_edges = if about.validation_edges.is_empty() { padded.clone() } else { about.validation_edges };
    let row_len = if let Lengths::Packed { row_len, .. } = job.source().lengths() { Some(row_len) } else { None };
    let Buckets { edges, batch_max } = settings.buckets(row_len.map_or(padded, |it| vec![it]))?;
    let largest = edges.last().copied().unwrap_or(1);
    let rows = match row_len {
        Some(row_len) => format!("up to {batch_max} packed rows of {row_len} {}", job.unit_of_length()),
        None => format!("up to {batch_max}, padded to {}", told(&edges)),
    };
    let chosen = format!("{rows}, {}", settings.step());
    let mut loader = settings.loader(largest, edges.clone());
    let shares = settings.shares_by_temperature(job.source().lengths().index())?;
    loader.tasks.shares = loader.tasks.shares.or(shares);
    check_tasks(settings, &job, &loader)?;
    Ok(Prepared {
        job: loading.watched(job),
        harness: loading.harness,
        loaded: taken,
        probe: loading.probe,
        capacity: loading.capacity,
        loader,
        largest_sample: largest,
        inference_edges: thinned(validation_edges, INFERENCE_EDGES),
        lengths: about.lengths,
        skips_held_out: about.skips_held_out,
        sizes: Sizes::Padded(Buckets { edges, batch_max }),
        notes: Notes { chosen, warnings: Vec::new() },
        data: about.lines,
        skipped: about.skipped,
        files: about.files,
    })
}

/// Refuses a mix of tasks that the samples do not have, and weights of others, before anything is written.
fn check_tasks<J: Job>(settings: &Settings, job: &J, loader: &LoaderConfig) -> Result<(), UserError> {
    settings.check_weights(job.tasks())?;
    let (any, tasks) = (|_: [u32; 1]| u32::MAX, loader.tasks.clone());
    let config = PlanConfig { tasks, ..PlanConfig::default() };
    let least = StreamLimits { samples: 2, bytes: Bytes(2) };
    let checked = match job.source().lengths() {
        Lengths::Cut => Ok(()),
        Lengths::Known(index) | Lengths::Packed { index, .. } => {
            BatchPlanner::try_new(index, any, config).map(drop).map_err(SamplerError::from)
        }
        Lengths::Streamed { .. } => StreamPlanner::try_new(any, config, least).map(drop).map_err(SamplerError::from),
    };
    checked.map_err(|error| settings.refused_shares(&error, job.tasks()))
}

/// Returns the lengths that a job knows.
pub(super) fn lengths<J: Job>(job: &J) -> Vec<u32> {
    job.source().lengths().index().map(|index| index.iter().map(|[length]| length).collect()).unwrap_or_default()
}
