//! What every command that runs a job checks before it touches anything.

use std::path::Path;
use std::sync::Arc;

use plimsoll_plan::PlanError;
use plimsoll_policy::{Bounds, ladder};
use plimsoll_predict::rungs;
use plimsoll_probe::{Probe, open};
use plimsoll_train::PlanRequest;
use plimsoll_types::{Bytes, StepShape};
use plimsoll_workloads::sr::{Photos, Sr};

use crate::exit::{UserError, describe, user_error};
use crate::load::Loaded;
use crate::settings::{Notes, Settings};
use crate::values::BatchSize;

/// Tiles of a validation batch beyond which nothing is gained: results wait for the whole batch.
const MAX_TILES: u32 = 64;

/// Rungs of the ladder that are planned; a rung between two of them is held against the upper one.
///
/// `CubeCL` has 128 streams to rehearse on, and each cell of a run takes two.
const RUNGS: usize = 32;

/// Edges and batches of the lattice that is planned for people.
const EDGES: usize = 5;
const BATCHES: usize = 10;

/// Steps of mixed shapes that are planned as a whole: some rounds of the ladder.
const SCHEDULE_STEPS: u32 = 200;

/// Real steps of each phase where certified probes plan; prediction was measured with ten.
const PROBES: u32 = 10;

/// A job that is ready to run, on a device that is there.
pub(crate) struct Prepared {
    pub(crate) probe: Box<dyn Probe>,
    pub(crate) capacity: Bytes,
    pub(crate) photos: Arc<Photos>,
    pub(crate) bounds: Bounds,
    pub(crate) notes: Notes,
}

impl Prepared {
    pub(crate) fn new(loaded: &Loaded) -> Result<Self, UserError> {
        let settings = &loaded.settings;
        let probe = open(settings.device, settings.memory.capacity.0).map_err(|error| user_error(describe(&error)))?;
        let capacity = probe.capacity().map_err(|error| user_error(describe(&error)))?;
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr");
        let photos = Photos::read(&settings.photos(fixtures, settings.smallest_patch(capacity)));
        let photos = Arc::new(photos.map_err(|error| user_error(describe(&error)))?);
        let (bounds, notes) = settings.bounds(capacity, photos.largest_patch())?;
        Ok(Self { probe, capacity, photos, bounds, notes })
    }

    pub(crate) fn job(&self, settings: &Settings) -> Sr {
        Sr::new(settings.sr(), Arc::clone(&self.photos))
    }

    /// Asks for a plan of what the policy may use.
    pub(crate) fn plan_request(&self, settings: &Settings) -> Result<PlanRequest, UserError> {
        let failed = |error: &dyn std::error::Error| user_error(format!("plan: {error}"));
        let ladder = ladder(&self.bounds).map_err(|error| failed(&error))?;
        let mut ladder = thinned(ladder.rungs().iter().map(|it| it.shape()).collect(), RUNGS);
        if let BatchSize::Fixed(n) = settings.batch.size {
            ladder = vec![StepShape::new(n, self.bounds.patch_max)];
        }
        let tile = settings.validation_tile(self.photos.largest_side());
        let tiles = std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|n| *n <= MAX_TILES);
        Ok(PlanRequest {
            device: settings.device,
            checkpointing: settings.memory.gradient_checkpointing,
            target: settings.memory.target,
            ladder,
            lattice: Vec::new(),
            inference: tiles.map(|n| StepShape::new(n, tile)).collect(),
            loader: settings.loader(self.bounds.patch_max),
            predictor: settings.predictor(self.probe.page().map_err(|error| failed(&error))?),
            max_probes: PROBES,
            is_corrected: true,
            schedule_steps: SCHEDULE_STEPS,
        })
    }

    /// Returns the cells that people want to see around those of a run.
    pub(crate) fn lattice(&self) -> Result<Vec<StepShape>, UserError> {
        let Bounds { patch_min, patch_max, patch_multiple, batch_max, .. } = self.bounds;
        let edges = thinned((patch_min..=patch_max).step_by(patch_multiple as usize).collect(), EDGES);
        let batches = thinned(rungs(batch_max).map_err(|error| user_error(format!("plan: {error}")))?, BATCHES);
        Ok(edges.into_iter().flat_map(|edge| batches.iter().map(move |n| StepShape::new(*n, edge))).collect())
    }
}

/// Keeps at most `n` of the values, evenly spread, with the first and the last.
fn thinned<T: Copy>(values: Vec<T>, n: usize) -> Vec<T> {
    if values.len() <= n {
        return values;
    }
    (0..n).map(|at| values[at * (values.len() - 1) / (n - 1)]).collect()
}

/// Opens the configured device anew.
pub(crate) fn open_probe(settings: &Settings) -> Result<Box<dyn Probe>, PlanError> {
    Ok(open(settings.device, settings.memory.capacity.0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_both_ends() {
        assert_eq!(thinned((1..=100).collect(), 4), [1, 34, 67, 100]);
        assert_eq!(thinned(vec![3, 4], 4), [3, 4]);
    }
}
