//! The samples of the next steps, read and collated ahead of need.

mod check;
mod config;
mod cursor;
mod ended;
mod error;
mod fill;
mod order;
mod packed;
mod padded;
mod padding;
mod position;
mod room;
mod samples;
mod shares;
mod stream;
mod streamed;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_monitor::MatesKept;
use plimsoll_sampler::{Speeds, StepSize, StreamStats};
use plimsoll_types::{Extent, SupplyStep};

pub use self::config::{LoaderConfig, StepUnit};
pub use self::cursor::CursorPosition;
pub use self::ended::EndedEpoch;
pub use self::error::LoaderError;
pub(crate) use self::error::from_sampler;
pub use self::fill::BadSample;
pub(crate) use self::fill::twice;
use self::fill::{Content, Filled, Filling, Task, none_readable};
pub use self::order::Wanted;
use self::order::{NextStep, Order};
pub use self::packed::PackedPosition;
use self::padded::PlannedDraw;
pub(crate) use self::padding::planned_padding;
pub use self::position::{LoaderPosition, StreamedPosition};
pub use self::room::{HostMemory, USUAL_BUFFERS};
pub use self::samples::StepSamples;
use self::shares::{Dealt, Shares};
pub(crate) use self::shares::{Limits, whole};
use crate::source::{Draw, Item, Source};
use crate::too_large::TooLarge;
use crate::workers::Workers;

/// Draws the samples of an epoch, and collates ahead of need: each once, or as often as weights and the mix of tasks say, but for
/// what [`LoaderConfig::drop_last`] leaves out.
///
/// Order and content depend on the seed, the epoch and what was wanted only, never on the number of workers.
/// All buffers are allocated here, before a run reads what is resident.
pub struct Loader<S: Source> {
    order: Order<S>,
    /// Where the step after the last delivered one begins.
    delivered: LoaderPosition,
    queue: VecDeque<Planned>,
    ready: BTreeMap<u64, Filled<S::Buffer>>,
    free: Vec<S::Buffer>,
    next_ticket: u64,
    n_in_flight: usize,
    /// Samples of whole steps that could not be read, since the last step that was delivered.
    left_out: Vec<u64>,
    /// Epochs that ended with such a step.
    ended: Vec<EndedEpoch>,
    n_samples: u64,
    /// Which samples are left out because they are too large.
    too_large: TooLarge,
    /// What a step holds that is whole, where others are left out.
    whole: Option<StepSize>,
    /// Who runs what of a step.
    shares: Shares,
    source: Arc<S>,
    bad_sample: BadSample,
    n_workers: usize,
    workers: Workers<Arc<Filling<S>>, Filled<S::Buffer>>,
}

struct Planned {
    ticket: u64,
    told: Told,
    after: LoaderPosition,
}

/// What is told of a step beside its samples.
struct Told {
    /// Who runs it, where that was decided before it was read.
    dealt: Option<Dealt>,
    ends_epoch: bool,
    /// Epochs that ended before it with a step that was left out.
    ended: Vec<EndedEpoch>,
    /// Samples that are left out, such as those that could not be read before the step was planned.
    skipped: Vec<u64>,
}

impl<S: Source> Loader<S> {
    /// Starts the workers, at the first step or at a position.
    ///
    /// # Errors
    ///
    /// [`LoaderError::BufferLimit`] when fewer than two steps fit into the limit, [`LoaderError::Sampler`] when the
    /// samples cannot be planned.
    pub fn try_new(
        source: &Arc<S>,
        position: Option<LoaderPosition>,
        wanted: &Wanted,
        config: &LoaderConfig,
    ) -> Result<Self, LoaderError> {
        let order = Order::try_new(source, config, wanted, position)?;
        let (own, bad_sample, free) = (Arc::clone(source), config.bad_sample, config.buffers(&**source)?);
        // What a step holds, before it is read.
        let is_known = order.takes_back() && bad_sample == BadSample::Fail;
        Ok(Self {
            delivered: order.position(),
            shares: Shares::new(config.cells.clone(), config.multiple_of, free.len(), is_known),
            order,
            queue: VecDeque::new(),
            ready: BTreeMap::new(),
            free,
            next_ticket: 0,
            n_in_flight: 0,
            left_out: Vec::new(),
            ended: Vec::new(),
            n_samples: source.n_samples(),
            too_large: TooLarge::default(),
            whole: config.drop_last.then(|| config.step_size()),
            source: Arc::clone(source),
            bad_sample,
            n_workers: config.workers.max(1),
            workers: Workers::start(config.workers, move |filling: Arc<Filling<S>>| {
                filling.help(&*own, bad_sample).map(Ok)
            }),
        })
    }

    /// Returns where the step after the last delivered one begins: what a checkpoint needs to go on from here.
    pub fn position(&self) -> &LoaderPosition {
        &self.delivered
    }

    /// Leaves samples out from here on that are too large: before they are read, where their lengths are known.
    ///
    /// What was planned ahead is planned anew; steps of a stream are collated anew when their turn comes.
    pub(crate) fn leave_out_too_large(&mut self, too_large: TooLarge) -> Result<(), LoaderError> {
        if self.too_large != too_large {
            self.order.leave_out_too_large(&too_large);
            self.too_large = too_large;
            self.plan_anew()?;
        }
        Ok(())
    }

    /// Reads of each step from here on what this rank runs: as much as follows from what each rank holds and how fast it is.
    pub(crate) fn share(&mut self, limits: &Arc<Limits>, speeds: &Speeds) -> Result<(), LoaderError> {
        if self.shares.follow(limits, speeds) { self.plan_anew() } else { Ok(()) }
    }

    /// Returns the samples of the next step, as they are wanted.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Source`] when a sample cannot be read, [`LoaderError::WorkerPanicked`] when a worker panicked,
    /// [`LoaderError::NoBuffer`] when no step was given back.
    pub fn next(&mut self, wanted: &Wanted) -> Result<StepSamples<S::Buffer>, LoaderError> {
        if !self.order.is(wanted) {
            self.change(wanted)?;
        }
        loop {
            if self.queue.is_empty() {
                self.plan_ahead()?;
            }
            match self.queue.front().and_then(|first| self.ready.remove(&first.ticket)) {
                Some(filled) => {
                    let samples = self.deliver(filled)?;
                    let samples = self.without_too_large(samples)?;
                    if !samples.draw.parts.is_empty() {
                        return Ok(samples);
                    }
                    self.leave_out(samples)?;
                }
                None => self.receive()?,
            }
        }
    }

    /// Collates a delivered step anew without its samples that are too large, which count as left out, where it has any or
    /// is padded for them.
    pub(crate) fn without_too_large(
        &self,
        samples: StepSamples<S::Buffer>,
    ) -> Result<StepSamples<S::Buffer>, LoaderError> {
        if !samples.draw.parts.iter().any(|part| self.too_large.has_cell(part.extent)) {
            return Ok(samples);
        }
        let StepSamples { mut draw, extents, mut skipped, buffer, ends_epoch, ended, .. } = samples;
        let ids = self.take_too_large(&mut draw, &extents);
        skipped.extend(ids);
        let filling = Filling::new(Task { ticket: 0, draw, items: None, is_own: Vec::new(), buffer });
        let filled = filling.help(&*self.source, self.bad_sample).unwrap_or_else(|| unreachable!("nobody else helps"));
        self.filled(filled, Told { dealt: None, ends_epoch, ended, skipped })
    }

    /// Passes over a step of which no sample is left, unless there was none before it either; what is told of it comes with
    /// the next one.
    pub(crate) fn leave_out(&mut self, samples: StepSamples<S::Buffer>) -> Result<(), LoaderError> {
        let StepSamples { draw, skipped, buffer, ends_epoch, ended, .. } = samples;
        self.free.push(buffer);
        self.left_out.extend(skipped);
        self.ended.extend(ended.into_iter().chain(ends_epoch.then(|| EndedEpoch::whole(draw.epoch))));
        if (self.left_out.len() as u64) < self.n_samples {
            return Ok(());
        }
        Err(none_readable(self.left_out.last().copied(), self.n_samples).into())
    }

    /// Gives the buffer of a step back, so that another step can be collated into it.
    ///
    /// New work is handed out once half of the buffers are free: waking a worker takes longer than all else here.
    ///
    /// # Errors
    ///
    /// Those of [`Loader::next`].
    pub fn recycle(&mut self, samples: StepSamples<S::Buffer>) -> Result<(), LoaderError> {
        self.free.push(samples.buffer);
        if self.queue.len() <= self.free.len() { self.plan_ahead() } else { Ok(()) }
    }

    /// Returns how long [`Self::next`] has waited so far for samples to be read and collated.
    pub fn waited(&self) -> Duration {
        self.workers.waited() + self.order.waited()
    }

    /// Returns how the look-ahead buffer did, where the samples are streamed.
    pub fn stream_stats(&self) -> Option<StreamStats> {
        self.order.stream_stats()
    }

    /// Returns how far ahead samples are read after a step that has waited so long for its own, where they are streamed.
    pub(crate) fn supply(&self, waited: Duration) -> Option<SupplyStep> {
        let (buffered_samples, buffered_bytes, buffer_fill) = self.order.buffered()?;
        let whole = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Some(SupplyStep {
            workers: whole(self.n_workers),
            waited_seconds: waited.as_secs_f64(),
            ready_steps: whole(self.ready.len() + self.workers.n_done()),
            buffered_samples,
            buffered_bytes,
            buffer_fill,
        })
    }

    /// Measures how many samples of a padded batch, as the sizes of now make them, or of a packed row share one in the next
    /// epoch too; nothing of a stream, or of more than a million samples.
    pub fn mates_kept(&self) -> Option<MatesKept> {
        self.order.mates_kept()
    }

    /// Plans what was planned ahead once more.
    fn plan_anew(&mut self) -> Result<(), LoaderError> {
        self.order.go_back(&self.delivered)?;
        self.forget_ahead();
        Ok(())
    }

    /// Plans what was planned ahead as it is wanted now; its buffers come back as their workers are done with them.
    fn change(&mut self, wanted: &Wanted) -> Result<(), LoaderError> {
        self.order.change(wanted, &self.delivered)?;
        self.forget_ahead();
        Ok(())
    }

    /// Drops what was planned ahead, unless it cannot come again.
    fn forget_ahead(&mut self) {
        if !self.order.takes_back() {
            return;
        }
        self.queue.clear();
        self.free.extend(std::mem::take(&mut self.ready).into_values().map(|filled| filled.buffer));
        self.delivered = self.order.position();
    }

    fn deliver(&mut self, filled: Filled<S::Buffer>) -> Result<StepSamples<S::Buffer>, LoaderError> {
        let Planned { told, after, .. } = self.queue.pop_front().unwrap_or_else(|| unreachable!("it was planned"));
        let mut samples = self.filled(filled, told)?;
        samples.skipped.splice(..0, std::mem::take(&mut self.left_out));
        samples.ended.splice(..0, std::mem::take(&mut self.ended));
        self.delivered = after;
        self.shares.count();
        Ok(samples)
    }

    /// Returns a step that was read, with what else is told of it.
    fn filled(&self, filled: Filled<S::Buffer>, told: Told) -> Result<StepSamples<S::Buffer>, LoaderError> {
        let Filled { buffer, content, .. } = filled;
        let Content { draw, extents, counted, tasks, skipped: unreadable } = content?;
        let Told { dealt, ends_epoch, ended, mut skipped } = told;
        skipped.extend(unreadable);
        let dealt = dealt.map_or_else(|| self.shares.delivered(&draw), Ok)?;
        Ok(StepSamples { draw, extents, counted, tasks, dealt, skipped, buffer, ends_epoch, ended })
    }

    fn plan_ahead(&mut self) -> Result<(), LoaderError> {
        while let Some(buffer) = self.free.pop() {
            let (NextStep { planned, items, mut skipped }, ended) = self.next_planned()?;
            let PlannedDraw { mut draw, ends_epoch, .. } = planned;
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            let items = self.leave_out_of(&mut draw, items, &mut skipped);
            let dealt = self.shares.planned(&draw, self.queue.len());
            let rows = dealt.as_ref().map(|it| it.rows_of(self.shares.rank()));
            let is_own = rows.map_or_else(Vec::new, |rows| draw.are_of(rows).collect());
            let told = Told { dealt, ends_epoch, ended, skipped };
            self.queue.push_back(Planned { ticket, told, after: self.order.position() });
            self.n_in_flight += 1;
            let filling = Arc::new(Filling::new(Task { ticket, draw, items, is_own, buffer }));
            for _ in 0..filling.n_helpers().min(self.n_workers) {
                self.workers.send(Arc::clone(&filling));
            }
        }
        Ok(())
    }

    /// Returns the next step that is not to be left out, and the epochs that ended with those that are.
    fn next_planned(&mut self) -> Result<(NextStep<S::Item>, Vec<EndedEpoch>), LoaderError> {
        let (mut ended, mut skipped) = (Vec::new(), Vec::new());
        loop {
            let mut next = self.order.next()?;
            skipped.append(&mut next.skipped);
            let PlannedDraw { draw, span, ends_epoch } = &next.planned;
            if !ends_epoch || self.whole.is_none_or(|size| size.is_whole(span)) {
                return Ok((NextStep { skipped, ..next }, ended));
            }
            ended.push(EndedEpoch { epoch: draw.epoch, dropped: draw.n_samples() as u64 });
            if 1 < ended.len() {
                return Err(LoaderError::DropsAll { n_samples: self.n_samples });
            }
        }
    }

    /// Leaves samples out of a step that are too large, before they are read or at least before they are collated.
    fn leave_out_of(
        &self,
        draw: &mut Draw,
        items: Option<Vec<S::Item>>,
        skipped: &mut Vec<u64>,
    ) -> Option<Vec<S::Item>> {
        if self.too_large.is_empty() {
            return items;
        }
        let extents: Vec<_> = match &items {
            Some(items) => items.iter().map(Item::extent).collect(),
            None => draw.ids().filter_map(|id| self.order.extent(id)).collect(),
        };
        skipped.extend(self.take_too_large(draw, &extents));
        let is_left = |(item, extent): (S::Item, &Extent)| (!self.too_large.has(*extent)).then_some(item);
        items.map(|items| items.into_iter().zip(&extents).filter_map(is_left).collect())
    }

    /// Takes the samples that are too large out of a draw of these lengths, and pads the others to less; returns the former.
    fn take_too_large(&self, draw: &mut Draw, extents: &[Extent]) -> Vec<u64> {
        let ids: Vec<_> =
            draw.ids().zip(extents).filter(|(_, it)| self.too_large.has(**it)).map(|(id, _)| id).collect();
        let left: Vec<_> = extents.iter().copied().filter(|it| !self.too_large.has(*it)).collect();
        draw.leave_out(&ids);
        draw.pad_to_less(&self.too_large, &left);
        ids
    }

    fn receive(&mut self) -> Result<(), LoaderError> {
        if self.n_in_flight == 0 {
            return Err(LoaderError::NoBuffer);
        }
        self.n_in_flight -= 1;
        let done = self.workers.receive()?;
        if self.queue.iter().any(|planned| planned.ticket == done.ticket) {
            self.ready.insert(done.ticket, done);
        } else {
            self.free.push(done.buffer);
        }
        Ok(())
    }
}
