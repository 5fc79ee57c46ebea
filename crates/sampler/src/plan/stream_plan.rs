//! What is planned of a stream when half of its buffer is full.

use plimsoll_types::Bytes;

use super::arrange::by_variety;
use super::entry::Entry;
use super::stream::StreamPlanner;
use super::streamed::{Planned, StreamSample};
use super::tasks::Tasks;
use super::window::Recipe;
use crate::CapacityRule;
use crate::hash::{Rng, Use};

impl<R: CapacityRule<AXES>, const AXES: usize> StreamPlanner<R, AXES> {
    /// Plans what waits when it is half of the buffer.
    pub(super) fn plan_half(&mut self) {
        if self.waiting.len() >= self.limits.samples / 2 || self.waiting_bytes.0 >= self.limits.bytes.0 / 2 {
            self.plan(false);
        }
    }

    /// Plans all samples that wait, and keeps partial batches for the next time unless it is the last.
    pub(super) fn plan(&mut self, last: bool) {
        if self.waiting.is_empty() {
            return;
        }
        let (seed, epoch) = (self.config.seed, self.epoch);
        // Samples that are padded alike keep their order, which in a stream may be anything, and is not in a position.
        self.waiting.sort_by_cached_key(|sample| sample.key(seed, epoch + 1));
        let most = (self.waiting.len() / 2).min(self.limits.samples / 4);
        if !self.plan_and_carry(last, most) {
            // They would be planned again at once.
            self.plan_and_carry(last, 0);
        }
        self.n_windows += 1;
    }

    /// Plans, and keeps so many samples at most; says whether these leave room for others, and else changes nothing.
    fn plan_and_carry(&mut self, last: bool, most: usize) -> bool {
        self.plan_window();
        let Self { waiting, window, config, .. } = self;
        let mut carried = Vec::new();
        if !last {
            window.take_partial(config.multiple_of, most, &mut carried);
        } else if config.drop_last {
            window.drop_ragged(config.multiple_of);
            self.stats.dropped += (waiting.len() - window.batches.n_samples()) as u64;
        }
        let of = |slots: &[u32]| -> Vec<_> { slots.iter().map(|slot| waiting[*slot as usize]).collect() };
        let left: Vec<StreamSample<AXES>> = of(&carried);
        let left_bytes: Bytes = left.iter().map(|sample| sample.bytes).sum();
        if left_bytes.0 >= self.limits.bytes.0 / 2 && most > 0 {
            return false;
        }
        for batch in window.batches.iter() {
            let planned = Planned::new(of(batch.ids), batch.cell, config.seed);
            self.n_ready += planned.samples.len();
            self.ready_bytes = self.ready_bytes.saturating_add(planned.bytes());
            self.ready.push_back(planned);
        }
        (self.waiting, self.waiting_bytes) = (left, left_bytes);
        true
    }

    /// Divides what waits into batches.
    fn plan_window(&mut self) {
        let Self { waiting, window, config, fit, .. } = self;
        let planned = |sample: &StreamSample<AXES>| {
            let lengths = sample.lengths;
            if fit.capacity(lengths) > 0 { lengths } else { fit.cut(lengths).unwrap_or(lengths) }
        };
        window.entries.clear();
        window.entries.extend(waiting.iter().zip(0..).map(|(sample, id)| Entry { lengths: planned(sample), id }));
        let of: Vec<u16> = waiting.iter().map(|sample| sample.task).collect();
        let n_tasks = of.iter().max().map_or(0, |task| usize::from(*task)) + 1;
        let axes = by_variety(&window.entries.iter().map(|entry| fit.of(entry.lengths).0));
        let tasks = (n_tasks > 1).then_some(Tasks { of: &of, n: n_tasks });
        let recipe = Recipe { config, fit, tasks, axes: &axes, window_share: 0.0 };
        recipe.plan(window, &mut Rng::new(Use::Batches, config.seed, self.epoch, self.n_windows));
    }
}
