//! Optimizer steps of packed rows, out of a stream.

use std::collections::VecDeque;

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::load::{PackLoad, PackRule};
use super::rows::{PackedRows, load};
use super::steps::{PackedStep, weight};
use super::stream::{PackStream, Row};
use super::stream_position::PackStreamPosition;
use crate::{PackError, Pushed, StepSize, StreamError, StreamSample};

/// Divides a packed stream into optimizer steps, as [`crate::PackSteps`] does with epochs.
///
/// Samples are pushed, and steps taken when they are whole.
/// The rows of a step that is not whole yet are held besides the buffer, so that a step may be larger than it.
///
/// ```
/// use plimsoll_sampler::{
///     Bytes, PackBudget, PackConfig, PackStream, PackStreamSteps, Pushed, StepSize, StreamLimits, StreamSample,
/// };
///
/// let limits = StreamLimits { samples: 64, bytes: Bytes::mib(1) };
/// let stream = PackStream::try_new(PackConfig::new(512), limits)?;
/// let mut steps = PackStreamSteps::try_new(stream, StepSize::Positions(4_096), PackBudget { rows: 4, squares: u64::MAX })?;
/// for id in 0..1_000 {
///     let sample = StreamSample { id, lengths: [1 + (id * 7919 % 300) as u32], task: 0, bytes: Bytes(512) };
///     while steps.push(sample)? == Pushed::Full {
///         let step = steps.next_step()?.expect("a full buffer has a step");
///         assert!(step.batches.iter().all(|rows| rows.len() <= 4));
///     }
/// }
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PackStreamSteps<R> {
    stream: PackStream,
    size: StepSize,
    rule: R,
    /// Rows that no step has taken.
    queue: VecDeque<Row>,
    epoch: u64,
    taken: u64,
}

/// Where the step after the last taken one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackStreamStepPosition {
    /// In the stream, with the rows that no step has taken.
    pub stream: PackStreamPosition,
    /// What the epoch's steps have taken: positions where they are counted, or else samples.
    pub taken: u64,
}

impl<R: PackRule> PackStreamSteps<R> {
    /// Starts with what the stream holds.
    ///
    /// # Errors
    ///
    /// [`crate::PlanError::BelowOne`] when a step takes nothing.
    pub fn try_new(stream: PackStream, size: StepSize, rule: R) -> Result<Self, StreamError> {
        size.check()?;
        Ok(Self { epoch: stream.epoch, stream, size, rule, queue: VecDeque::new(), taken: 0 })
    }

    /// Goes on where a position was taken, with a stream that holds nothing, as [`PackStream::resume`] does.
    ///
    /// # Errors
    ///
    /// Those of [`PackStreamSteps::try_new`] and [`PackStream::resume`].
    pub fn resume(
        stream: PackStream,
        size: StepSize,
        rule: R,
        position: &PackStreamStepPosition,
    ) -> Result<Self, StreamError> {
        let steps = Self::try_new(stream.resume(&position.stream)?, size, rule)?;
        Ok(Self { taken: position.taken, ..steps })
    }

    /// Takes the next sample of the stream, unless there is no room, or steps of an epoch that has ended are left; then
    /// a step is whole.
    ///
    /// # Errors
    ///
    /// Those of [`PackStream::push`].
    pub fn push(&mut self, sample: StreamSample<1>) -> Result<Pushed, StreamError> {
        self.fill();
        if self.stream.finished && !self.queue.is_empty() {
            return Ok(Pushed::Full);
        }
        let pushed = self.stream.push(sample)?;
        if self.epoch != self.stream.epoch {
            (self.epoch, self.taken) = (self.stream.epoch, 0);
        }
        Ok(pushed)
    }

    /// Takes the next step; `None` when none is whole, or before the end of the epoch might be the last.
    ///
    /// # Errors
    ///
    /// [`PackError::RowLoad`] when a row does not fit even alone; the steps then stay where they are.
    pub fn next_step(&mut self) -> Result<Option<PackedStep<u64>>, PackError> {
        self.fill();
        let n_rows = match self.n_rows() {
            Some(n) if n < self.queue.len() => n,
            _ if self.stream.finished && !self.queue.is_empty() => self.n_rows().unwrap_or(self.queue.len()),
            _ => return Ok(None),
        };
        let batches = self.batches(n_rows)?;
        let start = self.taken;
        self.taken += self.queue.drain(..n_rows).map(|row| weight(self.size, &row)).sum::<u64>();
        let ends_epoch = self.stream.finished && self.queue.is_empty() && self.stream.ready.is_empty();
        Ok(Some(PackedStep { epoch: self.epoch, span: start..self.taken, batches, ends_epoch }))
    }

    /// Ends the epoch: its last step is whole as it is.
    pub fn finish(&mut self) {
        self.stream.finish();
    }

    /// Follows another rule from the next step on, which changes no row.
    pub fn change(&mut self, rule: R) {
        self.rule = rule;
    }

    /// Goes on without a sample of a position, as [`PackStream::leave_out`] does.
    pub fn leave_out(&mut self, id: u64) -> bool {
        self.stream.leave_out(id)
    }

    /// The samples of a position that have not come yet, in growing order.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        self.stream.missing()
    }

    /// Where the next step begins.
    pub fn position(&self) -> PackStreamStepPosition {
        let mut stream = self.stream.position_with(self.queue.iter());
        if self.stream.finished && self.queue.is_empty() && self.stream.ready.is_empty() {
            stream.begin_next();
            return PackStreamStepPosition { stream, taken: 0 };
        }
        PackStreamStepPosition { stream, taken: self.taken }
    }

    /// Samples in the buffer, and their host memory; without those of rows that wait for the rest of their step.
    pub fn held(&self) -> (usize, Bytes) {
        self.stream.held()
    }

    /// Takes rows until there are more than a step has.
    fn fill(&mut self) {
        while self.n_rows().is_none_or(|n| n == self.queue.len())
            && let Some(row) = self.stream.next_row()
        {
            self.queue.push_back(row);
        }
    }

    /// How many rows the next step has; `None` when there are too few.
    fn n_rows(&self) -> Option<usize> {
        if let Some(end) = self.size.end(self.taken) {
            let sums = self.queue.iter().scan(self.taken, |sum, row| {
                *sum += weight(self.size, row);
                Some(*sum)
            });
            return sums.zip(1..).find(|(sum, _)| end <= *sum).map(|(_, n)| n);
        }
        let n = self.n_of_batch(0);
        // A row that does not fit even alone is an error of the step.
        (n < self.queue.len()).then_some(n.max(1))
    }

    /// How many rows fit together from this one on.
    fn n_of_batch(&self, first: usize) -> usize {
        let mut sum = PackLoad::default();
        let fits = |row: &&Row| {
            sum = sum + load(self.stream.config.row_len, row);
            self.rule.fits(sum)
        };
        self.queue.iter().skip(first).take_while(fits).count()
    }

    /// The first rows in micro-batches that fit.
    fn batches(&self, n_rows: usize) -> Result<Vec<PackedRows<u64>>, PackError> {
        let row_len = self.stream.config.row_len;
        let (mut batches, mut first) = (Vec::new(), 0);
        while first < n_rows {
            let n = self.n_of_batch(first).min(n_rows - first);
            if n == 0 {
                let PackLoad { positions, squares, .. } = load(row_len, &self.queue[first]);
                return Err(PackError::RowLoad { positions, squares });
            }
            let mut rows = PackedRows::new(row_len);
            self.queue.range(first..first + n).for_each(|row| rows.push(row));
            batches.push(rows);
            first += n;
        }
        Ok(batches)
    }
}
