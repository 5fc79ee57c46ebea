//! The samples of the next steps, collated ahead of need.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plimsoll_sampler::{EpochCursor, SamplerError};
use plimsoll_types::{Bytes, StepShape};

use crate::source::{Draw, Part, Source, SourceError};
use crate::step::StepPart;
use crate::workers::{BadSample, Filled, Task, Workers};

/// What keeps a loader from going on.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    /// The source has no samples.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// A sample cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One step's buffer alone is above the limit.
    #[error("load ahead: two steps of {step} each do not fit into `data.buffer_limit`, which is {limit}")]
    BufferLimit {
        /// What one step needs.
        step: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// A worker thread panicked.
    #[error("collate a step: a worker panicked: {0}")]
    WorkerPanicked(String),
}

/// The samples of one optimizer step, on the host.
#[derive(Debug)]
pub struct StepSamples<B> {
    /// Which samples.
    pub draw: Draw,
    /// Length of each sample.
    pub lengths: Vec<u32>,
    /// Samples that could not be read and are left out.
    pub skipped: Vec<u64>,
    /// Their content.
    pub buffer: B,
    /// Whether the epoch ends with this step.
    pub ends_epoch: bool,
}

impl<B> StepSamples<B> {
    /// Returns the micro-batches: every part of the draw, divided where it has more samples than one may have.
    pub fn micro_batches(&self, most: u32) -> Vec<StepPart> {
        let mut start = 0;
        let divide = |part: &Part| {
            let samples = start..start + part.ids.len();
            start = samples.end;
            StepPart::divide(samples, part.edge, most)
        };
        self.draw.parts.iter().flat_map(divide).collect()
    }
}

/// What a loader may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderConfig {
    /// Samples per optimizer step; the last step of an epoch takes what is left.
    pub effective_batch_size: u32,
    /// The largest edge that will be asked for.
    pub largest_edge: u32,
    /// Worker threads.
    pub workers: usize,
    /// Host memory that the buffers may hold together.
    pub buffer_limit: Bytes,
    /// What becomes of a sample that cannot be read.
    pub bad_sample: BadSample,
}

impl LoaderConfig {
    /// Returns the shape of the largest step.
    pub fn largest(&self) -> StepShape {
        StepShape::new(self.effective_batch_size, self.largest_edge)
    }

    /// Allocates the buffers of a loader.
    pub(crate) fn buffers<S: Source>(&self, source: &S) -> Result<Vec<S::Buffer>, LoaderError> {
        let (step, limit) = (source.buffer_bytes(self.largest()), self.buffer_limit);
        match (limit.0 / step.0.max(1)).min(MAX_AHEAD) {
            0 | 1 => Err(LoaderError::BufferLimit { step, limit }),
            ahead => Ok((0..ahead).map(|_| source.buffer(self.largest())).collect()),
        }
    }
}

/// At most this many steps are collated ahead: more would only be thrown away at the next change of the edge.
const MAX_AHEAD: u64 = 4;

/// Draws every sample of an epoch exactly once and collates ahead of need.
///
/// Order and content depend on seed and epoch only, never on the number of workers or on the micro-batch size.
/// All buffers are allocated here, before a run reads what is resident.
pub struct Loader<S: Source> {
    /// Where the next delivered step begins.
    delivered: EpochCursor,
    /// Where the next planned step begins.
    planned: EpochCursor,
    effective_batch_size: u64,
    queue: VecDeque<Planned>,
    ready: BTreeMap<u64, Filled<S::Buffer>>,
    free: Vec<S::Buffer>,
    next_ticket: u64,
    workers: Workers<S::Buffer>,
}

struct Planned {
    ticket: u64,
    epoch: u64,
    ids: Vec<u64>,
    after: EpochCursor,
}

impl<S: Source> Loader<S> {
    /// Starts the workers, at the position of `cursor`.
    ///
    /// # Errors
    ///
    /// [`LoaderError::BufferLimit`] when fewer than two steps fit into the limit.
    pub fn try_new(source: &Arc<S>, cursor: EpochCursor, config: LoaderConfig) -> Result<Self, LoaderError> {
        let free = config.buffers(&**source)?;
        Ok(Self {
            delivered: cursor.clone(),
            planned: cursor,
            effective_batch_size: u64::from(config.effective_batch_size),
            queue: VecDeque::new(),
            ready: BTreeMap::new(),
            free,
            next_ticket: 0,
            workers: Workers::start(source, config.workers.max(1), config.bad_sample),
        })
    }

    /// Returns where the step after the last delivered one begins: what a checkpoint needs to go on from here.
    pub fn cursor(&self) -> &EpochCursor {
        &self.delivered
    }

    /// Returns the samples of the next step, at this edge.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Source`] when a sample cannot be read, [`LoaderError::WorkerPanicked`] when a worker panicked.
    pub fn next(&mut self, edge: u32) -> Result<StepSamples<S::Buffer>, LoaderError> {
        if self.queue.is_empty() {
            self.plan_ahead(edge);
        }
        loop {
            let first = self.queue.front().map_or(0, |it| it.ticket);
            match self.ready.remove(&first) {
                Some(filled) if filled.draw.has_edge(edge) => return Ok(self.deliver(filled)),
                Some(filled) => self.collate(first, edge, filled.buffer),
                None => self.receive()?,
            }
        }
    }

    /// Gives the buffer of a step back, so that another step can be collated into it.
    ///
    /// New work is handed out once half of the buffers are free: waking a worker takes longer than all else here.
    pub fn recycle(&mut self, samples: StepSamples<S::Buffer>) {
        let edge = samples.draw.parts.first().map_or(1, |part| part.edge);
        self.free.push(samples.buffer);
        if self.queue.len() <= self.free.len() {
            self.plan_ahead(edge);
        }
    }

    fn deliver(&mut self, filled: Filled<S::Buffer>) -> StepSamples<S::Buffer> {
        let Planned { after, .. } = self.queue.pop_front().unwrap_or_else(|| unreachable!("it was planned"));
        let Filled { draw, lengths, skipped, buffer, .. } = filled;
        let ends_epoch = after.epoch != draw.epoch;
        self.delivered = after;
        StepSamples { draw, lengths, skipped, buffer, ends_epoch }
    }

    fn plan_ahead(&mut self, edge: u32) {
        while let Some(buffer) = self.free.pop() {
            let (epoch, ids) = self.planned.take(self.effective_batch_size);
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.queue.push_back(Planned { ticket, epoch, ids, after: self.planned.clone() });
            self.collate(ticket, edge, buffer);
        }
    }

    fn collate(&mut self, ticket: u64, edge: u32, buffer: S::Buffer) {
        if let Some(planned) = self.queue.iter().find(|it| it.ticket == ticket) {
            let draw = Draw::of_edge(planned.epoch, planned.ids.clone(), edge);
            self.workers.send(Task { ticket, draw, buffer });
        }
    }

    fn receive(&mut self) -> Result<(), LoaderError> {
        let done = self.workers.receive()?;
        self.ready.insert(done.ticket, done);
        Ok(())
    }
}
