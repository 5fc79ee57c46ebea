//! What every command that runs a job checks before it touches anything.

use plimsoll_policy::{Bounds, batches, ladder};
use plimsoll_probe::Probe;
use plimsoll_train::{Job, Lengths, LoaderConfig, MAX_INFERENCE_BATCH, PlanRequest, Source as _};
use plimsoll_types::{Bytes, Cells, Extent, StepShape};
use plimsoll_workloads::{Hooked, Hooks};

use crate::device::{far_below, shared};
use crate::exit::{UserError, user_error};
use crate::harness::Harness;
use crate::loading::Loaded;
use crate::place::Place;
use crate::settings::{Notes, Settings};
use crate::sizes::{Buckets, Sizes};
use crate::values::BatchSize;

/// Names of samples and files that the terminal shows before it says how many more there are.
pub(crate) const SHOWN_NAMES: usize = 8;

/// Names the first of several, and says how many more there are; `rest` says what those are called.
pub(crate) fn some_of(names: impl ExactSizeIterator<Item = String>, most: usize, rest: &str) -> String {
    let n = names.len();
    let shown = names.take(most).collect::<Vec<_>>().join(", ");
    if most < n { format!("{shown} and {} {rest}", n - most) } else { shown }
}

/// The most lengths that are told one by one.
const TOLD: usize = 4;

/// Tells cells as a sentence: all of a few, else how many there are between which two.
pub(crate) fn told(cells: &Cells) -> String {
    match (cells.first(), cells.last()) {
        (Some(first), Some(last)) if TOLD < cells.len() => {
            let what = if cells.n_axes() == 1 { "lengths" } else { "cells" };
            format!("{} {what} from {first} to {last}", cells.len())
        }
        _ => cells.to_string(),
    }
}

/// Rungs of the ladder that are planned; a rung between two of them is held against the upper one.
///
/// `CubeCL` has 128 streams to rehearse on, and each cell of a run takes two.
const RUNGS: usize = 32;

/// Extents and batches of the lattice that is planned for people.
const EXTENTS: usize = 5;
const BATCHES: usize = 10;

/// Real steps of each phase where certified probes plan; prediction was measured with ten.
const PROBES: u32 = 10;

/// A job that is ready to run, on a device that is there.
pub(crate) struct Prepared<J> {
    /// What opens the device anew.
    pub(crate) harness: &'static dyn Harness,
    /// What loading its data took.
    pub(crate) loaded: Loaded,
    pub(crate) probe: Box<dyn Probe>,
    pub(crate) capacity: Bytes,
    /// The job; the harness watches it.
    pub(crate) job: Hooked<J, dyn Hooks>,
    pub(crate) sizes: Sizes,
    pub(crate) loader: LoaderConfig,
    /// The largest extent that every sample can be cut or padded to.
    pub(crate) largest_sample: Extent,
    /// Extents of validation batches, from small to large, or such as cover them.
    pub(crate) inference_extents: Vec<Extent>,
    /// Extent of each training sample; none where samples are cut.
    pub(crate) extents: Vec<Extent>,
    /// Whether a validation leaves out what does not fit, where that is allowed.
    pub(crate) skips_held_out: bool,
    pub(crate) notes: Notes,
    /// What there is to say of the data, line by line.
    pub(crate) data: Vec<String>,
    /// Files and samples that were left out, each with the reason.
    pub(crate) skipped: Vec<String>,
    /// What the run directory holds besides the usual: names and contents.
    pub(crate) files: Vec<(&'static str, String)>,
}

impl<J: Job> Prepared<J> {
    /// Whether several samples lie in a row.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.job.source().lengths(), Lengths::Packed { .. })
    }

    /// Names the devices and what may be used of each.
    pub(crate) fn introduce_device(&self, settings: &Settings) {
        let devices = settings.devices();
        for place in Place::all(self.harness, &devices) {
            // The one that is there already tells its own capacity.
            let opened = if place.is_alone() { None } else { place.open().ok() };
            let probe = opened.as_ref().unwrap_or(&self.probe);
            if let Ok(capacity) = probe.capacity() {
                let budget = capacity.scale(settings.memory.target);
                let at = if place.is_alone() { String::new() } else { format!("{}: ", place.at) };
                eprintln!("device      {at}{}, capacity {capacity}, budget {budget}", probe.name());
            }
        }
        for note in shared(&devices) {
            eprintln!("device      {note}");
        }
        if let Some(note) = far_below(self.harness, settings) {
            eprintln!("device      {note}");
        }
    }

    /// Asks for a plan of what the policy may use.
    pub(crate) fn plan_request(&self, settings: &Settings) -> Result<PlanRequest, UserError> {
        let items = || std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|n| *n <= MAX_INFERENCE_BATCH);
        let of_extent = |extent: &Extent| items().map(|n| StepShape::of(n, *extent)).collect::<Vec<_>>();
        Ok(PlanRequest {
            device: settings.device(),
            optimizer_recovery: settings.optimizer_recovery(),
            recompute: settings.memory.recompute(),
            dtype: settings.dtype(),
            target: settings.memory.target,
            ladder: self.ladder(settings)?,
            lattice: Vec::new(),
            inference: self.inference_extents.iter().flat_map(of_extent).collect(),
            loader: self.loader.clone(),
            predictor: settings.predictor(),
            max_probes: PROBES,
            is_corrected: true,
            schedule_steps: 0,
        })
    }

    /// Returns the shapes that a run may use.
    fn ladder(&self, settings: &Settings) -> Result<Vec<StepShape>, UserError> {
        let failed = |error: &dyn std::error::Error| user_error(format!("plan: {error}"));
        if let BatchSize::Fixed(n) = settings.batch.size {
            return Ok(match &self.sizes {
                Sizes::Cut(bounds) => vec![StepShape::new(n, bounds.patch_max)],
                Sizes::Padded(buckets) => buckets.cells.iter().map(|cell| StepShape::of(n, *cell)).collect(),
            });
        }
        match &self.sizes {
            Sizes::Cut(bounds) => {
                let ladder = ladder(bounds).map_err(|error| failed(&error))?;
                Ok(thinned(ladder.rungs().iter().map(|it| it.shape()).collect(), RUNGS))
            }
            Sizes::Padded(Buckets { cells, batch_max }) => {
                let batches = batches(1, *batch_max).collect();
                // A batch of a cell between two planned ones is held against one that covers it.
                let cells = thinned(cells.to_vec(), RUNGS / 2);
                let batches = thinned(batches, RUNGS / cells.len().max(1));
                Ok(cells.iter().flat_map(|cell| batches.iter().map(|n| StepShape::of(*n, *cell))).collect())
            }
        }
    }

    /// Returns the cells that people want to see around those of a run.
    pub(crate) fn lattice(&self) -> Vec<StepShape> {
        let extents: Vec<Extent> = match &self.sizes {
            Sizes::Cut(Bounds { patch_min, patch_max, patch_multiple, .. }) => {
                (*patch_min..=*patch_max).step_by(*patch_multiple as usize).map(Extent::new).collect()
            }
            Sizes::Padded(buckets) => buckets.cells.to_vec(),
        };
        let batches = batches(1, self.sizes.batches().1).collect();
        let (extents, batches) = (thinned(extents, EXTENTS), thinned(batches, BATCHES));
        extents.into_iter().flat_map(|extent| batches.iter().map(move |n| StepShape::of(*n, extent))).collect()
    }
}

/// Keeps at most `n` of the values, evenly spread, with the first and the last.
pub(crate) fn thinned<T: Copy>(values: Vec<T>, n: usize) -> Vec<T> {
    if values.len() <= n {
        return values;
    }
    (0..n).map(|at| values[at * (values.len() - 1) / (n - 1)]).collect()
}

/// Returns at most `n` extents of which each of these is covered by one: of several that come one after the other what covers
/// them, and on one axis, where they grow, as [`thinned`] does.
pub(crate) fn covering(extents: &[Extent], n: usize) -> Vec<Extent> {
    let ends = thinned((1..=extents.len()).collect(), n);
    let joined = |start: &mut usize, end: usize| {
        let those = &extents[std::mem::replace(start, end)..end];
        those.iter().copied().reduce(Extent::joined)
    };
    ends.into_iter().scan(0, joined).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_extents_cover_all_and_no_more_than_their_neighbours() {
        let edges: Vec<_> = (1..=100).map(Extent::new).collect();
        assert_eq!(covering(&edges, 3), thinned(edges.clone(), 3));
        let pairs = [[1, 24], [2, 20], [3, 8], [4, 9], [8, 2]].map(|it| Extent::try_new(&it).unwrap());
        let few = covering(&pairs, 3);
        assert_eq!(few.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1 × 24", "3 × 20", "8 × 9"]);
        assert_eq!((covering(&pairs, 9), covering(&[], 3)), (pairs.to_vec(), Vec::new()));
    }

    #[test]
    fn many_lengths_are_told_as_a_sentence() {
        assert_eq!(told(&vec![1, 2, 4].into()), "1, 2, 4");
        assert_eq!(told(&(1..=24).collect::<Vec<_>>().into()), "24 lengths from 1 to 24");
        assert_eq!(told(&Cells::default()), "");
    }

    #[test]
    fn thinning_keeps_both_ends() {
        assert_eq!(thinned((1..=100).collect(), 4), [1, 34, 67, 100]);
        assert_eq!(thinned(vec![3, 4], 4), [3, 4]);
    }
}
