//! The steps of a run.

use plimsoll_sampler::{
    BatchPlanner, CapacityRule as _, Lattice, PackConfig, PackLoad, PackPlanner, PackSteps, Piece, PlanConfig,
    SamplerError, StepPlanner,
};

use super::{Batch, Division};

impl Division {
    /// Pads the samples of an epoch to one of the edges.
    pub(super) fn padded(&self, epoch: u64) -> Result<Vec<Vec<Batch>>, SamplerError> {
        let lattice = Lattice::try_new([self.edges.clone()])?;
        let config = PlanConfig { seed: self.seed, lattice, ..PlanConfig::default() };
        let rule = self.rule.clone().up_to(self.size, self.batches_per_step);
        let planner = BatchPlanner::try_new(self.index.clone(), rule, config)?;
        let mut endless = StepPlanner::try_new(&planner, self.size)?;
        let mut steps = Vec::new();
        loop {
            let step = endless.next_step();
            if step.epoch == epoch {
                steps.push(step.batches.into_iter().map(Batch::from).collect());
            }
            if step.epoch == epoch && step.ends_epoch {
                return Ok(steps);
            }
        }
    }

    /// Packs the samples of an epoch into rows of the last edge.
    pub(super) fn packed(&self, epoch: u64) -> Result<Vec<Vec<Batch>>, SamplerError> {
        let row_len = self.edges.last().copied().unwrap_or(0);
        let most = self.rule.clone().up_to(self.size, self.batches_per_step).capacity([row_len]);
        let config = PackConfig { seed: self.seed, ..PackConfig::new(row_len) };
        let mut endless = PackSteps::try_new(&PackPlanner::try_new(self.index.clone(), config)?, self.size)?;
        endless.start(epoch);
        let mut steps = Vec::new();
        loop {
            let step = endless.next_step(&|_: PackLoad| true)?;
            let batch = |rows: Vec<&[Piece]>| Batch {
                ids: rows.iter().copied().flatten().map(|piece| piece.id.into()).collect(),
                edge: row_len,
                packed: Some(rows.iter().map(|row| u32::try_from(row.len()).unwrap_or(u32::MAX)).collect()),
            };
            steps.push(step.divided(most, self.batches_per_step as usize).into_iter().map(batch).collect());
            if step.ends_epoch {
                return Ok(steps);
            }
        }
    }
}
