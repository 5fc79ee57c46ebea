//! Steps out of samples whose lengths show when they are read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plimsoll_sampler::{
    EpochCursor, PlannedStep, Pushed, StreamLimits, StreamPlanner, StreamPosition, StreamSample, StreamStats,
    StreamSteps,
};
use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::fill::read;
use super::order::BatchSizes;
use super::{LoaderConfig, LoaderError};
use crate::source::{Item, Source};
use crate::workers::Workers;

/// Where the next step of a stream begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamedPosition {
    /// In the steps.
    pub steps: StreamPosition,
    /// The next sample that is read, after those that are pending.
    pub next: EpochCursor,
    /// What the steps were made for.
    pub wanted: Vec<u32>,
}

/// An endless sequence of steps, read ahead of need.
///
/// The samples go through the planner in their order, one by one as steps ask for them, so that the steps do not depend
/// on how fast which worker reads.
pub(super) struct Stream<S: Source> {
    steps: StreamSteps<BatchSizes>,
    /// What was pushed and is in no step.
    items: HashMap<u64, S::Item>,
    /// The next sample to push.
    next: EpochCursor,
    /// The next sample to read.
    reading: EpochCursor,
    /// Pending samples of an earlier part of the run, which come first.
    pending: usize,
    n_asked: u64,
    n_pushed: u64,
    arrived: BTreeMap<u64, Arrived<S::Item>>,
    arrived_bytes: Bytes,
    most_arrived: u64,
    bytes: Bytes,
    skipped: Vec<u64>,
    n_waits: u64,
    n_full: u64,
    readers: Readers<S::Item>,
}

/// Turn a ticket, an epoch and an id into the ticket and the sample.
type Readers<T> = Workers<(u64, u64, u64), (u64, Arrived<T>)>;

struct Arrived<T> {
    id: u64,
    /// `None` for a sample that cannot be read and is left out.
    item: Option<T>,
}

/// A whole step with its samples, and those before it that could not be read.
pub(super) struct StreamedStep<T> {
    pub(super) step: PlannedStep,
    pub(super) items: Vec<T>,
    pub(super) skipped: Vec<u64>,
}

impl<S: Source> Stream<S> {
    pub(super) fn try_new(
        source: &Arc<S>,
        config: &LoaderConfig,
        planner: StreamPlanner<BatchSizes, 1>,
        position: Option<&StreamedPosition>,
    ) -> Result<Self, LoaderError> {
        let n_samples = source.n_samples();
        let (steps, next, pending) = match position {
            None => {
                let next = EpochCursor::try_new(n_samples, config.seed)?;
                (StreamSteps::try_new(planner, config.step_size())?, next, Vec::new())
            }
            Some(StreamedPosition { steps, next, .. }) => {
                let resumed = StreamSteps::resume(planner, config.step_size(), steps)?;
                (resumed, next.clone(), steps.pending.clone())
            }
        };
        let (source, bad_sample) = (Arc::clone(source), config.bad_sample);
        let work =
            move |(ticket, epoch, id)| Ok((ticket, Arrived { id, item: read(&*source, bad_sample, epoch, id)? }));
        let mut stream = Self {
            steps,
            items: HashMap::new(),
            reading: next.clone(),
            next,
            pending: pending.len(),
            n_asked: 0,
            n_pushed: 0,
            arrived: BTreeMap::new(),
            arrived_bytes: Bytes::ZERO,
            most_arrived: (config.look_ahead as u64 / 2).max(1),
            bytes: Bytes(config.buffer_limit.0 / 4),
            skipped: Vec::new(),
            n_waits: 0,
            n_full: 0,
            readers: Workers::start(config.workers, work),
        };
        let epoch = stream.steps.position().epoch;
        for id in pending {
            stream.ask(epoch, id);
        }
        Ok(stream)
    }

    /// Returns what the look-ahead buffer may hold: half of the samples, and of the bytes, wait for it outside.
    pub(super) fn limits(config: &LoaderConfig) -> StreamLimits {
        StreamLimits { samples: config.look_ahead.max(2), bytes: Bytes(config.buffer_limit.0 / 4) }
    }

    pub(super) fn next(&mut self) -> Result<StreamedStep<S::Item>, LoaderError> {
        loop {
            if let Some(step) = self.steps.next_step() {
                let ids = step.batches.iter().flat_map(|batch| &batch.ids);
                let items = ids.filter_map(|id| self.items.remove(id)).collect();
                return Ok(StreamedStep { step, items, skipped: std::mem::take(&mut self.skipped) });
            }
            self.push()?;
        }
    }

    pub(super) fn position(&self, wanted: &[u32]) -> StreamedPosition {
        StreamedPosition { steps: self.steps.position(), next: self.next.clone(), wanted: wanted.to_vec() }
    }

    pub(super) fn change(&mut self, rule: BatchSizes) -> Result<(), LoaderError> {
        Ok(self.steps.change(rule)?)
    }

    /// What happened so far: empty is a step that had to wait for a sample, full a sample that had to wait for a step.
    pub(super) fn stats(&self) -> StreamStats {
        StreamStats { times_empty: self.n_waits, times_full: self.n_full, ..self.steps.stats() }
    }

    /// Pushes the next sample, and ends the epoch with its last one.
    fn push(&mut self) -> Result<(), LoaderError> {
        self.read_ahead();
        let Arrived { id, item } = self.arrived()?;
        match item {
            None => self.skipped.push(id),
            Some(item) => {
                let (lengths, bytes) = ([item.length()], item.bytes());
                let pushed = self.steps.push(StreamSample { id, lengths, task: item.task(), bytes })?;
                match pushed {
                    Pushed::Held => drop(self.items.insert(id, item)),
                    Pushed::Skipped => self.skipped.push(id),
                    Pushed::Full => {
                        // A step is whole: the sample comes again after it.
                        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
                        self.arrived.insert(self.n_pushed, Arrived { id, item: Some(item) });
                        return Ok(());
                    }
                }
            }
        }
        self.n_pushed += 1;
        if self.pending > 0 {
            self.pending -= 1;
        } else {
            self.next.take(1);
        }
        if self.pending == 0 && self.next.position == 0 {
            self.steps.finish();
        }
        Ok(())
    }

    /// Returns the next sample in order, and waits for it where it must.
    fn arrived(&mut self) -> Result<Arrived<S::Item>, LoaderError> {
        while let Some(done) = self.readers.try_receive() {
            self.keep(done?);
        }
        self.n_waits += u64::from(!self.arrived.contains_key(&self.n_pushed));
        loop {
            if let Some(arrived) = self.arrived.remove(&self.n_pushed) {
                self.arrived_bytes = self.arrived_bytes.saturating_sub(bytes(&arrived));
                return Ok(arrived);
            }
            let done = self.readers.receive()?;
            self.keep(done);
        }
    }

    fn keep(&mut self, (ticket, arrived): (u64, Arrived<S::Item>)) {
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes(&arrived));
        self.arrived.insert(ticket, arrived);
    }

    /// Asks the workers for more samples while there is room for them; the next one is always asked for.
    fn read_ahead(&mut self) {
        while self.n_asked == self.n_pushed
            || (self.n_asked - self.n_pushed < self.most_arrived && self.arrived_bytes < self.bytes)
        {
            let (epoch, ids) = self.reading.take(1);
            for id in ids {
                self.ask(epoch, id);
            }
        }
        self.n_full += u64::from(self.arrived.len() as u64 == self.most_arrived || self.bytes <= self.arrived_bytes);
    }

    fn ask(&mut self, epoch: u64, id: u64) {
        self.readers.send((self.n_asked, epoch, id));
        self.n_asked += 1;
    }
}

fn bytes<T: Item>(arrived: &Arrived<T>) -> Bytes {
    arrived.item.as_ref().map_or(Bytes::ZERO, Item::bytes)
}
