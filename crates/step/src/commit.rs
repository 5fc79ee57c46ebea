//! The optimizer's step, and the way back when it runs out of memory.

use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::GradientsParams;
use plimsoll_probe::note_work;
use plimsoll_types::{Bytes, MemoryReading};

use crate::error::{StepError, unless_out_of_memory};
use crate::guarded::GuardedStep;
use crate::state::TrainState;

/// Where the state from before comes from, when the optimizer's step runs out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimizerRecovery {
    /// From the last checkpoint: costs nothing until it happens, and then the steps since.
    #[default]
    Restore,
    /// From a copy of weights and moments that is kept until the step is known to be good: costs their memory, which the
    /// plan includes, and one read of the device a step.
    Keep,
}

impl OptimizerRecovery {
    /// Returns what is kept of a state while the optimizer steps.
    pub(crate) fn kept<M: Module>(self, state: &TrainState<M>) -> Option<TrainState<M>> {
        (self == Self::Keep).then(|| state.clone())
    }
}

/// What the optimizer is to do.
pub struct Update {
    /// Of the mean loss over the step.
    pub gradients: GradientsParams,
    /// The learning rate.
    pub rate: f64,
    /// What there is: more than that is none, where peaks are exact.
    pub capacity: Bytes,
    /// Where the state from before comes from.
    pub recovery: OptimizerRecovery,
}

/// How the optimizer's step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// As it should.
    Done {
        /// The memory after it, without the copy; its peak is since the last part began.
        reading: MemoryReading,
        /// What reading memory took.
        probe_time: Duration,
        /// What reading the weights took.
        check_time: Duration,
    },
    /// It ran out of memory.
    OutOfMemory {
        /// What it reached, where the device could say.
        peak: Option<Bytes>,
        /// Whether the state from before is there again; else there is none.
        is_back: bool,
    },
}

impl GuardedStep {
    /// Lets the optimizer step, and reads the memory after it.
    ///
    /// What it ran out of memory with is no model any more, unless a copy was kept: that is back then. Where a failure is
    /// silent, the weights are read at once if there is a copy. Without one there is no hurry: the next step cannot read
    /// a loss of lost weights.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the device fails in another way; the state from before is back then, where a copy was kept, and
    /// lost otherwise.
    pub fn commit<M: Module>(&mut self, state: &mut TrainState<M>, update: Update) -> Result<Commit, StepError> {
        let Update { gradients, rate, capacity, recovery } = update;
        let kept = recovery.kept(state);
        let has_copy = kept.is_some();
        note_work(format_args!("the optimizer's step"));
        let updated = self.updated(state, (gradients, rate), capacity, has_copy);
        if let Ok(Commit::Done { reading, probe_time, check_time }) = updated {
            drop(kept);
            // What the copy held is in use no more.
            let now = if has_copy { self.read().unwrap_or(reading) } else { reading };
            let reading = MemoryReading { peak: reading.peak, ..now };
            return Ok(Commit::Done { reading, probe_time, check_time });
        }
        match kept {
            Some(kept) => *state = kept,
            None => state.lose(),
        }
        updated
    }

    /// Lets the optimizer step, and says how that ended; what it ended badly with is no model.
    fn updated<M: Module>(
        &self,
        state: &mut TrainState<M>,
        (gradients, rate): (GradientsParams, f64),
        capacity: Bytes,
        has_copy: bool,
    ) -> Result<Commit, StepError> {
        let mut probe_time = Duration::ZERO;
        // CubeCL panics where it has no memory to pass a kernel its arguments, at the next call that waits for it: the
        // reading is one, so that the panic is not taken for that of the next forward pass.
        let stepped = unless_out_of_memory(|| {
            state.update(rate, gradients);
            let start = Instant::now();
            let reading = self.read();
            probe_time = start.elapsed();
            reading
        });
        let failed = |peak| Ok(Commit::OutOfMemory { peak, is_back: has_copy });
        let Some(reading) = stepped.and_then(Option::transpose)? else { return failed(None) };
        let (is_exact, start) = (self.probe().has_exact_peak(), Instant::now());
        if is_exact && capacity < reading.peak {
            return failed(Some(reading.peak));
        }
        if is_exact || !has_copy || self.weights_are_whole(state.model())? {
            return Ok(Commit::Done { reading, probe_time, check_time: start.elapsed() });
        }
        failed(None)
    }
}
