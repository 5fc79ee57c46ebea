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

/// Tiles of a validation batch beyond which nothing is gained: results wait for the whole batch.
const MAX_TILES: u32 = 64;

/// Steps of mixed shapes that are planned as a whole.
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

    /// Asks for a plan of every cell that the policy may use, and of the lattice around them.
    pub(crate) fn plan_request(&self, settings: &Settings) -> Result<PlanRequest, UserError> {
        let failed = |error: &dyn std::error::Error| user_error(format!("plan: {error}"));
        let ladder = ladder(&self.bounds).map_err(|error| failed(&error))?;
        let batches = rungs(self.bounds.batch_max).map_err(|error| failed(&error))?;
        let edges = (self.bounds.patch_min..=self.bounds.patch_max).step_by(self.bounds.patch_multiple as usize);
        let lattice = edges.flat_map(|edge| batches.iter().map(move |n| StepShape::new(*n, edge)));
        let mut training: Vec<_> = lattice.chain(ladder.rungs().iter().map(|it| it.shape())).collect();
        training.sort_unstable_by_key(|it| (it.edge, it.samples));
        training.dedup();
        let tile = settings.validation_tile(self.photos.largest_side());
        let tiles = rungs(MAX_TILES).map_err(|error| failed(&error))?;
        Ok(PlanRequest {
            device: settings.device,
            checkpointing: settings.memory.gradient_checkpointing,
            target: settings.memory.target,
            training,
            inference: tiles.into_iter().map(|n| StepShape::new(n, tile)).collect(),
            loader: settings.loader(self.bounds.patch_max),
            predictor: settings.predictor(self.probe.page().map_err(|error| failed(&error))?),
            max_real_steps: PROBES,
            schedule_steps: SCHEDULE_STEPS,
        })
    }
}

/// Opens the configured device anew.
pub(crate) fn open_probe(settings: &Settings) -> Result<Box<dyn Probe>, PlanError> {
    Ok(open(settings.device, settings.memory.capacity.0)?)
}
