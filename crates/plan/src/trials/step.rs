//! A real step of chosen samples.

use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use burn::optim::GradientsParams;
use plimsoll_guard::GuardError;
use plimsoll_predict::PartReading;
use plimsoll_step::{
    Commit, MeanLoss, OptimizerRecovery, Rescale, StepError, StepOutcome, StepPart, StepRequest, Update,
};
use plimsoll_types::{Attempt, Budget, Bytes, MemoryReading, Observation, StepShape};

use super::BlankTrials;
use crate::{Blank, Trial, TrialError};

/// Parts of a step of blank batches: the second finds the gradients of the first, and adds its own to them.
pub(super) const ACCUMULATED: usize = 2;

/// What an optimizer step showed that may have been divided on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// The step as it was in the end; its shape is that of the part with the most positions.
    pub trial: Trial,
    /// The micro-batches that ran out of memory.
    pub failures: Vec<Attempt>,
    /// What was read of each part that counts, in order, where peaks are exact.
    pub parts: Vec<PartReading>,
}

impl<B: Blank> BlankTrials<B> {
    /// Runs one optimizer step of blank parts of these shapes, in order; no sample is read.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a part did not fit in the end.
    pub fn blank_parts(&mut self, shapes: &[StepShape]) -> Result<Ran, TrialError> {
        let blank = Rc::clone(&self.blank);
        let StepRequest { micro_batches: parts, units, .. } = StepRequest::of_shapes(shapes, Vec::new(), self.budget());
        let mean_loss = |model: &B::Model, range: Range<usize>| {
            let at = parts.partition_point(|it| it.samples.end <= range.start);
            blank.mean_loss(model, shapes[at].with_samples(u32::try_from(range.len()).unwrap_or(u32::MAX)))
        };
        self.take(parts.clone(), units, &mean_loss)
    }

    /// Runs one optimizer step of these parts, whose samples count so much each; a part is divided where it runs out of
    /// memory.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a single sample did not fit.
    pub fn take(
        &mut self,
        micro_batches: Vec<StepPart>,
        units: Vec<u64>,
        mean_loss: MeanLoss<'_, B::Model>,
    ) -> Result<Ran, TrialError> {
        let blank = Rc::clone(&self.blank);
        let (task_probes, budget) = (blank.task_probes(self.model()), self.budget());
        // Where a gradient may be scaled, this one is.
        let rescale = Rescale { max_norm: blank.max_norm().map(|_| f64::MIN_POSITIVE), ..Rescale::default() };
        let lengths = Vec::new();
        self.attempt(
            &StepRequest { micro_batches, units, lengths, task_probes, budget, rescale, may_halve: true },
            mean_loss,
        )
    }

    /// Takes a step of micro-batches of this shape that failed in parts, or passed the capacity, for one that ran out of
    /// memory.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] then.
    pub fn whole(&self, shape: StepShape, ran: Ran) -> Result<Trial, TrialError> {
        let Ran { trial, failures, .. } = ran;
        let (peak, page, nodes) = (Some(trial.peak), trial.part.peak.page(), trial.part.nodes);
        let above = Some(Attempt { peak, page, nodes, ..Attempt::new(shape, trial.resident) });
        match failures.first().copied().or(above.filter(|_| self.capacity < trial.peak)) {
            Some(failure) => Err(TrialError::OutOfMemory(failure)),
            None => Ok(Trial { shape, ..trial }),
        }
    }

    /// Returns what a trial may use: all that there is.
    fn budget(&self) -> Budget {
        Budget { capacity: self.capacity, budget: self.capacity }
    }

    fn attempt(&mut self, request: &StepRequest, mean_loss: MeanLoss<'_, B::Model>) -> Result<Ran, TrialError> {
        let start = Instant::now();
        let state = self.state.get_or_insert_with(|| self.blank.start());
        let attempted = self.guarded.attempt(state.model(), request, &|_, _| None, mean_loss);
        let shapes = request.micro_batches.iter().map(StepPart::shape);
        let shape = shapes.max_by_key(|it| it.positions()).unwrap_or(StepShape::new(0, 0));
        match attempted {
            Ok(outcome) => self.committed(outcome, shape, start),
            Err(StepError::NeverFits { source: GuardError::NeverFits { needed: peak, .. }, .. }) => {
                Err(TrialError::OutOfMemory(Attempt { peak, ..Attempt::new(shape, Bytes::ZERO) }))
            }
            Err(StepError::SumNeverFits { .. }) => Err(TrialError::OutOfMemory(Attempt::new(shape, Bytes::ZERO))),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets the optimizer step, and reads what it took.
    fn committed(&mut self, outcome: StepOutcome, shape: StepShape, start: Instant) -> Result<Ran, TrialError> {
        let StepOutcome { gradients, resident, peak, parts, .. } = outcome;
        let is_exact = self.guarded.probe().has_exact_peak();
        let mut parts: Vec<_> = parts.iter().filter_map(|it| it.reading(is_exact)).collect();
        let failures = self.guarded.take_failures();
        let peak = peak.max(self.guarded.read()?.peak);
        if is_exact {
            self.guarded.probe_mut().reset_peak().map_err(StepError::from)?;
        }
        let Some(reading) = self.update(gradients)? else {
            return Err(TrialError::OutOfMemory(Attempt::new(shape, resident)));
        };
        let MemoryReading { in_use, reserved, peak: of_optimizer, page, packed } = reading;
        for it in &mut parts {
            it.packed = packed;
        }
        let (peak, seconds) = (peak.max(of_optimizer), start.elapsed().as_secs_f64());
        let part = if is_exact {
            part(shape, resident, &parts, of_optimizer).with_packed(packed)
        } else {
            // Pages are those of all parts.
            PartReading::of(Observation { shape, resident, peak }, false, page)
        };
        Ok(Ran { trial: Trial { shape, resident, in_use, reserved, peak, part, seconds }, failures, parts })
    }

    /// Lets the optimizer step, and returns the memory after it; `None` when it ran out of memory: the next step makes another
    /// model then.
    fn update(&mut self, gradients: GradientsParams) -> Result<Option<MemoryReading>, StepError> {
        let update = Update { gradients, rate: 0.0.into(), capacity: Bytes::MAX, recovery: self.recovery };
        let Some(mut state) = self.state.take() else { unreachable!("its gradients are there") };
        if let Commit::Done { reading, .. } = self.guarded.commit(&mut state, update)?
            && (self.guarded.probe().has_exact_peak()
                // With a copy they were read.
                || self.recovery == OptimizerRecovery::Keep
                || self.guarded.weights_are_whole(state.model())?)
        {
            self.state = Some(state);
            return Ok(Some(reading));
        }
        drop(state);
        self.guarded.give_back()?;
        Ok(None)
    }
}

/// Returns the most that a part of this shape found in use, and what one needs at most on top of that.
///
/// The optimizer's step counts on top of what was in use before the whole step: that of a step of one part finds the
/// gradients of this part, which are among what the part needs.
fn part(shape: StepShape, before_step: Bytes, parts: &[PartReading], of_optimizer: Bytes) -> PartReading {
    let of_shape = || parts.iter().filter(|it| it.shape == shape);
    let before = of_shape().map(|it| it.before).fold(before_step, Bytes::max);
    let needs = of_shape().map(|it| it.peak.bytes().saturating_sub(it.before));
    let need = needs.fold(of_optimizer.saturating_sub(before_step), Bytes::max);
    let nodes = of_shape().map(|it| it.nodes).max().unwrap_or_default();
    let read = Observation { shape, resident: before, peak: before.saturating_add(need) };
    PartReading::from(read).with_nodes(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: StepShape = StepShape::new(4, 32);

    /// Returns what is learnt where 10 MiB were in use before the step, in MiB.
    #[track_caller]
    fn check(parts: &[(u64, u64)], of_optimizer: u64, found: u64, peak: u64) {
        let read = |shape, found, peak, nodes| {
            let (resident, peak) = (Bytes::mib(found), Bytes::mib(peak));
            PartReading::from(Observation { shape, resident, peak }).with_nodes(nodes)
        };
        let of_shape = (1..).zip(parts).map(|(nodes, (found, peak))| read(SHAPE, *found, *peak, nodes));
        let parts: Vec<_> = of_shape.chain([read(StepShape::new(1, 32), 99, 999, 9)]).collect();
        let expected = read(SHAPE, found, peak, parts.len() as u64 - 1);
        assert_eq!(part(SHAPE, Bytes::mib(10), &parts, Bytes::mib(of_optimizer)), expected);
    }

    #[test]
    fn a_part_needs_what_it_took_on_top_of_what_it_found() {
        // It makes 20 MiB of gradients; the second finds those of the first.
        check(&[(10, 40), (30, 60)], 35, 30, 60);
        check(&[(10, 41), (30, 60)], 35, 30, 61);
        check(&[(10, 40)], 35, 10, 40);
    }

    #[test]
    fn an_optimizer_that_takes_more_than_the_parts_is_bounded_for_a_step_of_one_part_too() {
        // It takes 15 MiB besides the gradients, and a part takes 10: alone, a part would reach 45 MiB.
        check(&[(10, 40), (30, 60)], 45, 30, 65);
    }
}
