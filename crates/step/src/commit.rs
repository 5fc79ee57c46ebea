//! The optimizer's step, and the way back when it runs out of memory.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::GradientsParams;
use plimsoll_guard::Happened;
use plimsoll_probe::note_work;
use plimsoll_types::{Bytes, MemoryReading};

use crate::elsewhere::Elsewhere;
use crate::error::{StepError, unless_out_of_memory};
use crate::guarded::GuardedStep;
use crate::recovery::OptimizerRecovery;
use crate::state::TrainState;

/// What the optimizer is to do.
pub struct Update {
    /// Of the mean loss over the step.
    pub gradients: GradientsParams,
    /// The learning rate, or that of each group of parameters.
    pub rate: ModuleLearningRate,
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

/// Returns the model of a state.
pub type ModelOf<S, M> = fn(&S) -> Cow<'_, M>;

impl GuardedStep {
    /// Lets the optimizer step, and reads the memory after it.
    ///
    /// What it ran out of memory with is no model any more, unless a copy was kept: that is back then, with what the forward
    /// passes of the step have changed. Where a failure is silent, the weights are read at once if there is a copy. Without
    /// one there is no hurry: the next step cannot read a loss of lost weights.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the device fails in another way; the state from before is back then, where a copy was kept, and
    /// lost otherwise.
    pub fn commit<M: Module>(&mut self, state: &mut TrainState<M>, update: Update) -> Result<Commit, StepError> {
        let Update { gradients, rate, capacity, recovery } = update;
        let update = |state: &mut TrainState<M>| state.update(rate, gradients);
        let updated = self.commit_by(state, |it| Cow::Borrowed(it.model()), (capacity, recovery), update);
        if recovery == OptimizerRecovery::Restore && !matches!(updated, Ok(Commit::Done { .. })) {
            state.lose();
        }
        updated
    }

    /// Lets somebody else's state step, as [`Self::commit`] does, up to a capacity.
    ///
    /// What is left of a state of which no copy was kept is no model after any other end than [`Commit::Done`].
    ///
    /// # Errors
    ///
    /// As [`Self::commit`].
    pub fn commit_by<S: Clone, M: Module>(
        &mut self,
        state: &mut S,
        model: ModelOf<S, M>,
        (capacity, recovery): (Bytes, OptimizerRecovery),
        update: impl FnOnce(&mut S),
    ) -> Result<Commit, StepError> {
        note_work(format_args!("the optimizer's step"));
        let _span = tracing::info_span!("optimizer").entered();
        let kept = recovery.kept(state);
        let has_copy = kept.is_some();
        let mut updated = self.updated(state, model, (capacity, has_copy), update);
        match kept {
            Some(kept) if !matches!(updated, Ok(Commit::Done { .. })) => {
                *state = kept;
                self.discard(&*model(state));
            }
            kept => {
                self.keep();
                drop(kept);
            }
        }
        match &mut updated {
            Ok(Commit::Done { reading, .. }) => {
                self.guard().note_updated();
                // What the copy held is in use no more.
                let now = if has_copy { self.read().unwrap_or(*reading) } else { *reading };
                *reading = MemoryReading { peak: reading.peak, ..now };
            }
            Ok(Commit::OutOfMemory { .. }) => {
                self.guard().on(Happened::UpdateFailed { has_copy });
            }
            Err(_) => (),
        }
        updated
    }

    fn updated<S, M: Module>(
        &self,
        state: &mut S,
        model: ModelOf<S, M>,
        (capacity, has_copy): (Bytes, bool),
        update: impl FnOnce(&mut S),
    ) -> Result<Commit, StepError> {
        let mut probe_time = Duration::ZERO;
        // CubeCL panics where it has no memory to pass a kernel its arguments, at the next call that waits for it: the
        // reading is one, so that the panic is not taken for that of the next forward pass.
        let stepped = unless_out_of_memory(|| {
            update(state);
            let start = Instant::now();
            let holds = |it: &Elsewhere| it.holds_update();
            let elsewhere = self.others().iter().map(holds).collect::<Result<Vec<_>, _>>();
            let reading = elsewhere.map_err(StepError::from).and_then(|it| Ok((self.read()?, it)));
            probe_time = start.elapsed();
            reading
        });
        let failed = |peak| Ok(Commit::OutOfMemory { peak, is_back: has_copy });
        let Some((reading, elsewhere)) = stepped.and_then(Option::transpose)? else { return failed(None) };
        let (is_exact, start) = (self.probe().has_exact_peak(), Instant::now());
        if is_exact && capacity < reading.peak {
            return failed(Some(reading.peak));
        }
        if has_copy && elsewhere.contains(&false) {
            return failed(None);
        }
        if has_copy && self.is_silent() && !self.weights_are_whole(&*model(state))? {
            return failed(None);
        }
        Ok(Commit::Done { reading, probe_time, check_time: start.elapsed() })
    }
}
