//! The end of a step's passes: what all parts, on all ranks, have added up to.

use std::mem::take;
use std::time::Instant;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use plimsoll_types::Attempt;

use super::Attempts;
use crate::error::{ReadError, StepError, read_values, unless_out_of_memory};
use crate::flat::FlatGradients;
use crate::gradients::{WeightedAccumulator, scaled, squared_norm};
use crate::issue::read_of_step;
use crate::outcome::StepOutcome;
use crate::request::StepRequest;
use crate::running::RunningStates;
use crate::unread::UnreadPart;

/// The gradient of a step, and what was read of it.
struct Checked {
    gradients: GradientsParams,
    /// The mean loss, and those of the tasks.
    losses: Vec<f64>,
    gradient_norm: f64,
    task_norms: Vec<f64>,
}

impl<M: Module, T> Attempts<'_, M, T> {
    /// Checks what all parts have added up to; returns none where that did not fit.
    pub(in super::super) fn finish(&mut self) -> Result<Option<(StepOutcome, Vec<T>)>, StepError> {
        self.times.guard = self.begun.elapsed().saturating_sub(self.inside);
        if !self.guarded.before.is_empty() {
            // What forward passes have changed is there from now on.
            RunningStates::settle(self.model);
        }
        let accumulator = std::mem::replace(&mut self.accumulator, WeightedAccumulator::new(0));
        let (gradients, start) = (accumulator.finish(), Instant::now());
        let _span = tracing::info_span!("check").entered();
        let checked = if self.guarded.is_alone() { self.checked(gradients) } else { self.checked_together(gradients) }?;
        let Some(Checked { gradients, losses, gradient_norm, task_norms }) = checked else { return Ok(None) };
        self.times.check += start.elapsed().saturating_sub(self.times.ranks);
        let mut losses = losses.into_iter();
        let (loss, of_tasks) = (losses.next(), losses.collect());
        let (parts, resident, in_use) = (take(&mut self.parts), self.resident, self.in_use);
        let (peak, times) = (self.peak, self.times);
        let outcome =
            StepOutcome { gradients, loss, gradient_norm, of_tasks, task_norms, parts, resident, in_use, peak, times };
        Ok(Some((outcome, take(&mut self.brought))))
    }

    /// Reads on the device what depends on every gradient.
    fn checked(&mut self, mut gradients: GradientsParams) -> Result<Option<Checked>, StepError> {
        let StepRequest { task_probes, rescale, .. } = self.request;
        let unread = self.unread_values();
        let values = read_of_step(self.model, &mut gradients, task_probes, (unread, &self.guarded.device));
        let Some(values) = self.values(values)? else { return Ok(None) };
        let squares = self.add_unread(&values);
        let mut norms = squares.iter().map(|square| square.sqrt() / rescale.scale());
        let (gradient_norm, task_norms) = (norms.next().unwrap_or(0.0), norms.collect());
        let losses = take(&mut self.losses);
        check_finite(&losses, gradient_norm)?;
        if let Some(factor) = rescale.factor(gradient_norm) {
            gradients = scaled(self.model, gradients, factor);
            // Where a failed allocation is silent, what was multiplied is to be read once more.
            let is_silent = self.guarded.is_silent();
            if is_silent && self.values(squared_norm(self.model, &gradients, &self.guarded.device))?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Checked { gradients, losses, gradient_norm, task_norms }))
    }

    /// Adds what all ranks have made, once each has what its own parts have made, and reads it on the host.
    fn checked_together(&mut self, gradients: GradientsParams) -> Result<Option<Checked>, StepError> {
        let StepRequest { task_probes, rescale, .. } = self.request;
        if self.guarded.is_silent() {
            // What was silently refused here is run again here, before others have added it.
            let norm = squared_norm(self.model, &gradients, &self.guarded.device);
            let values = Tensor::cat(self.unread_values().into_iter().chain([norm]).collect(), 0);
            let Some(values) = self.values(values)? else { return Ok(None) };
            self.add_unread(&values);
        }
        let mut sum = match FlatGradients::read(self.model, gradients, self.guarded.probe()) {
            Ok(own) => own,
            Err(error) => return self.blame(error).map(|()| None),
        };
        let (n_own, start) = (self.losses.len(), Instant::now());
        let n_losses = self.guarded.team().meet_to_sum(n_own)?;
        self.losses.resize(n_losses, 0.0);
        sum.values.extend(self.losses.drain(..).map(narrowed));
        self.guarded.team().sum(&mut sum.values)?;
        self.times.ranks += start.elapsed();
        let losses: Vec<_> = sum.values.split_off(sum.values.len() - n_losses).into_iter().map(f64::from).collect();
        let norms = sum.norms(self.model, task_probes);
        let (gradient_norm, scale) = (norms.of_all / rescale.scale(), rescale.scale());
        check_finite(&losses, gradient_norm)?;
        if let Some(factor) = rescale.factor(gradient_norm) {
            sum.scale(factor);
        }
        let gradients = self.written(&sum)?;
        let task_norms = norms.of_probes.into_iter().map(|it| it / scale).collect();
        Ok(Some(Checked { gradients, losses, gradient_norm, task_norms }))
    }

    /// Writes the sum to the device, again after a cleanup where there was no room: the others have added it, and go on.
    fn written(&mut self, sum: &FlatGradients) -> Result<GradientsParams, StepError> {
        for is_last in [false, true] {
            let StepRequest { task_probes, .. } = self.request;
            let device = self.guarded.device.clone();
            let gradients = unless_out_of_memory(|| sum.write(self.model, task_probes, &device))?;
            if let Some(gradients) = gradients {
                let is_silent = self.guarded.is_silent();
                if !is_silent || self.values(squared_norm(self.model, &gradients, &device))?.is_some() {
                    return Ok(gradients);
                }
            }
            if !is_last {
                self.guarded.give_back()?;
            }
        }
        Err(StepError::SumNeverFits { capacity: self.request.budget.capacity })
    }

    /// Whether some part is read with the step, and not by itself.
    pub(in super::super) fn is_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    fn unread_values(&self) -> Vec<Tensor<1>> {
        self.unread.iter().filter_map(|it| it.unread.values.clone()).collect()
    }

    /// Adds the losses of parts that were read with the step; returns the values that follow theirs.
    fn add_unread<'v>(&mut self, mut values: &'v [f64]) -> &'v [f64] {
        for UnreadPart { unread, n_units, .. } in take(&mut self.unread) {
            let of_part;
            (of_part, values) = values.split_at(unread.n_values());
            self.add_losses(&of_part[..unread.n_losses], n_units);
        }
        values
    }

    /// Reads what depends on every gradient; returns none where there was not enough memory for them.
    fn values(&mut self, values: Tensor<1>) -> Result<Option<Vec<f64>>, StepError> {
        self.times.n_reads += 1;
        match read_values(values, self.guarded.probe()) {
            Ok(values) => Ok(Some(values)),
            Err(error) => self.blame(error).map(|()| None),
        }
    }

    /// Blames a part for what could not be read for want of memory.
    fn blame(&mut self, error: ReadError) -> Result<(), StepError> {
        let refused = match error {
            ReadError::Other(error) => return Err(*error),
            ReadError::OutOfMemory { refused } => refused,
            ReadError::NeverFits { allocation, .. } => Some(allocation),
        };
        // Nobody has read a part alone: the largest is to blame for all that is known.
        let blamed = take(&mut self.unread).into_iter().map(|it| it.attempt);
        let blamed = blamed.max_by_key(|it| it.shape.positions());
        self.guarded.failures.extend(blamed.map(|it| Attempt { refused, ..it }));
        Ok(())
    }
}

fn check_finite(losses: &[f64], gradient_norm: f64) -> Result<(), StepError> {
    let loss = losses.first().copied();
    if loss.is_none_or(f64::is_finite) && gradient_norm.is_finite() {
        return Ok(());
    }
    Err(StepError::NotFinite { loss, gradient_norm })
}

#[expect(clippy::cast_possible_truncation, reason = "losses are of 32 bits")]
fn narrowed(value: f64) -> f32 {
    value as f32
}
