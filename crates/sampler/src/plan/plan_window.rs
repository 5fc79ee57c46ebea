//! From a place in the epoch to the batches of a window.

use super::compact::{BitWriter, Ids};
use super::config::{ALL, Oversize, WINDOW};
use super::draw::Stretch;
use super::entry::Entry;
use super::kinds::{Kinds, has_edges};
use super::planner::BatchPlanner;
use super::position::{Left, Progress};
use super::queues::Queues;
use super::tasks::Tasks;
use super::window::{Recipe, Window};
use crate::hash::{Rng, Use};
use crate::{CapacityRule, PositionError};

/// The most samples that are carried from a window to the next: a position names each, which takes 4 bytes in JSON where
/// there are ten million.
const MOST_CARRIED: usize = 256;

/// The samples of a window: those that are drawn, and then those that are carried over.
///
/// Batches are filled from the last of equals: who was carried once is not carried again.
struct Samples {
    ids: Vec<u32>,
    n_drawn: usize,
}

impl Samples {
    /// The order of queues, from which the first in time take the first.
    fn carried_first(mut self) -> Vec<u32> {
        self.ids.rotate_left(self.n_drawn);
        self.ids
    }
}

impl<R: CapacityRule<AXES>, const AXES: usize> BatchPlanner<R, AXES> {
    /// Plans the next window; says whether there was one.
    pub(super) fn plan_window(&self, progress: &mut Progress, window: &mut Window<AXES>) -> bool {
        let before = progress.drawn.total();
        if before == self.source.total() && progress.carried.0.is_empty() {
            window.batches.clear();
            return false;
        }
        let samples = self.draw(progress, Stretch::Window(self.window), std::mem::take(&mut window.spare.ids));
        if let Some(kinds) = self.kinds_of(&samples) {
            let (ids, room) = (samples.carried_first(), std::mem::take(&mut window.spare.queues));
            let queues = self.queued(kinds, &ids, &mut window.entries, room);
            self.keep(ids, progress, window);
            self.plan_kinds(kinds, queues, before, progress, window);
        } else {
            self.plan_ids(&samples.ids, before, progress, window);
            self.keep(samples.ids, progress, window);
        }
        true
    }

    /// Keeps the room of ids for the next window; the batches of the last one take it.
    fn keep(&self, ids: Vec<u32>, progress: &Progress, window: &mut Window<AXES>) {
        if progress.drawn.total() < self.source.total() {
            window.spare.ids = ids;
        }
    }

    /// Plans what other rules have left of the next window.
    pub(super) fn plan_left(
        &self,
        left: &Left,
        progress: &mut Progress,
        window: &mut Window<AXES>,
    ) -> Result<(), PositionError> {
        let before = progress.drawn.total();
        let samples = self.draw(progress, Stretch::Exactly(left.n_drawn), Vec::new());
        // Another plan of the same window has another order.
        let stream = |n_waiting: usize| before | (1 + n_waiting as u64) << u32::BITS;
        if left.by_kind {
            let (kinds, n_samples) = (self.kinds()?, samples.ids.len());
            let queues = self.queued(kinds, &samples.carried_first(), &mut window.entries, Queues::default());
            let queues = queues.read(&mut left.taken.reader()).ok_or_else(|| wrong(n_samples))?;
            let mut waits = queues.waits();
            window.entries.retain(|entry| waits(entry.id));
            self.plan_kinds(kinds, queues, stream(window.entries.len()), progress, window);
        } else {
            let ids = left.waiting(samples.ids)?;
            self.plan_ids(&ids, stream(ids.len()), progress, window);
        }
        Ok(())
    }

    /// What is left of a window when these samples of it were used besides those that were taken before.
    pub(super) fn left(
        &self,
        before: &Progress,
        n_drawn: u64,
        left: Option<&Left>,
        used: &[u32],
        same_kinds: bool,
    ) -> Result<Left, PositionError> {
        let samples = self.draw(&mut before.clone(), Stretch::Exactly(n_drawn), Vec::new());
        let mut bits = BitWriter::default();
        let all = samples.ids.clone();
        let is_by_kind = left.map_or_else(|| self.kinds_of(&samples).is_some(), |left| left.by_kind);
        let waits = if is_by_kind {
            let (kinds, ids) = (self.kinds()?, samples.carried_first());
            let mut entries = Vec::new();
            let mut queues = self.queued(kinds, &ids, &mut entries, Queues::default());
            if let Some(left) = left {
                queues = queues.read(&mut left.taken.reader()).ok_or_else(|| wrong(ids.len()))?;
            }
            if same_kinds {
                for id in used {
                    queues.pop(kinds.of(&self.index, *id));
                }
                queues.write(&mut bits);
                return Ok(Left { n_drawn, by_kind: true, taken: bits.finish() });
            }
            let mut waits = queues.waits();
            ids.iter().zip(&entries).filter(|(_, entry)| waits(entry.id)).map(|(id, _)| *id).collect()
        } else if let Some(left) = left {
            left.waiting(samples.ids)?
        } else {
            samples.ids
        };
        // Those that wait in queues are in another order, and a sample may be here more than once: a number for each id of
        // the data set is quicker than a search.
        let mut n_left = vec![0u32; self.index.n_samples()];
        for id in waits {
            n_left[id as usize] += 1;
        }
        for id in used {
            n_left[*id as usize] = n_left[*id as usize].saturating_sub(1);
        }
        for id in all {
            let n = &mut n_left[id as usize];
            bits.push(u64::from(*n == 0), 1);
            *n = n.saturating_sub(1);
        }
        Ok(Left { n_drawn, by_kind: false, taken: bits.finish() })
    }

    /// Draws the next samples, in the room of others.
    fn draw(&self, progress: &mut Progress, stretch: Stretch, mut ids: Vec<u32>) -> Samples {
        ids.clear();
        self.source.draw(progress.epoch, &mut progress.drawn, stretch, &mut ids);
        let n_drawn = ids.len();
        ids.extend_from_slice(&progress.carried.0);
        Samples { ids, n_drawn }
    }

    /// Plans samples by their ids.
    fn plan_ids(&self, ids: &[u32], stream: u64, progress: &mut Progress, window: &mut Window<AXES>) {
        window.entries.clear();
        match self.n_oversize {
            0 => window.entries.extend(ids.iter().map(|id| Entry { lengths: self.index.lengths(*id), id: *id })),
            _ => window.entries.extend(ids.iter().filter_map(|id| {
                let lengths = self.planned_lengths(*id)?;
                Some(Entry { lengths, id: *id })
            })),
        }
        let carried = self.plan_entries(self.index.tasks(), stream, progress, window);
        progress.carried = Ids::from_iter(carried);
    }

    /// Plans the kinds of the samples that wait, and then says which samples they are.
    fn plan_kinds(
        &self,
        kinds: &Kinds<AXES>,
        mut queues: Queues,
        stream: u64,
        progress: &mut Progress,
        window: &mut Window<AXES>,
    ) {
        // Samples that are cut are of several kinds and one length, and stay in their random order.
        let are_cut = self.n_oversize > 0 && self.config.oversize == Oversize::Truncate;
        if kinds.are_in_order() && !are_cut {
            // As many entries of each length as there are samples in its queue: they need not be sorted.
            window.entries.clear();
            for (kind, n) in queues.n_waiting() {
                if let Some(lengths) = self.planned(kinds.says(kind).lengths) {
                    window.entries.extend(std::iter::repeat_n(Entry { lengths, id: kind }, n));
                }
            }
        } else if self.n_oversize > 0 {
            window.entries.retain_mut(|entry| {
                let planned = self.planned(entry.lengths);
                entry.lengths = planned.unwrap_or(entry.lengths);
                planned.is_some()
            });
        }
        let tasks = self.index.tasks().map(|_| kinds.tasks());
        let mut carried = self.plan_entries(tasks.as_deref(), stream, progress, window);
        // The first batch in time has the first samples of each kind.
        window.batches.replace(|kind| queues.pop(kind));
        for kind in &mut carried {
            *kind = queues.pop(*kind);
        }
        progress.carried = Ids::from_iter(carried);
        window.spare.queues = queues;
        if (0..AXES).any(|axis| has_edges(&self.config, axis)) {
            // A kind says no more than which edge holds a sample.
            window.batches.measure(|id| self.planned_lengths(id).unwrap_or([0; AXES]));
        }
    }

    /// Plans the window's entries; returns those that are carried over.
    fn plan_entries(
        &self,
        tasks: Option<&[u16]>,
        stream: u64,
        progress: &Progress,
        window: &mut Window<AXES>,
    ) -> Vec<u32> {
        let mut rng = Rng::new(Use::Batches, self.config.seed, progress.epoch, stream);
        let tasks = tasks.map(|of| Tasks { of, n: self.index.n_tasks() });
        let window_share = self.window as f64 / self.index.n_samples() as f64;
        let recipe = Recipe { config: &self.config, fit: &self.fit, tasks, axes: &self.axes, window_share };
        recipe.plan(window, &mut rng);
        let is_last = progress.drawn.total() == self.source.total();
        let mut carried = Vec::new();
        if !is_last {
            window.take_partial(self.config.multiple_of, self.most_carried(), &mut carried);
        } else if self.config.drop_last {
            window.drop_ragged(self.config.multiple_of);
        }
        carried
    }

    /// Not more than a window, but enough for what each task has beyond a multiple.
    fn most_carried(&self) -> usize {
        let beyond = self.index.n_tasks().saturating_mul(self.config.multiple_of as usize - 1);
        self.window.min(MOST_CARRIED).max(beyond)
    }

    /// The kinds of these samples, if that is all that tells them apart.
    ///
    /// Cells are few; of lengths there are as many as a small window has samples, and more than it pays to count in one
    /// that was asked to be huge.
    fn kinds_of(&self, samples: &Samples) -> Option<&Kinds<AXES>> {
        let n_samples = samples.ids.len();
        let has_cells = (0..AXES).all(|axis| has_edges(&self.config, axis));
        let is_large = WINDOW + MOST_CARRIED < n_samples && n_samples <= ALL + MOST_CARRIED;
        self.kinds.as_ref().filter(|_| has_cells || is_large)
    }

    /// The kinds that a position speaks of.
    fn kinds(&self) -> Result<&Kinds<AXES>, PositionError> {
        self.kinds.as_ref().ok_or(PositionError::BeyondEpoch { key: "kinds", value: u64::MAX, most: 0 })
    }

    /// Queues the samples, and fills them in by their kinds.
    fn queued(&self, kinds: &Kinds<AXES>, ids: &[u32], entries: &mut Vec<Entry<AXES>>, room: Queues) -> Queues {
        entries.clear();
        entries.extend(ids.iter().map(|id| {
            let kind = kinds.of(&self.index, *id);
            Entry { lengths: kinds.says(kind).lengths, id: kind }
        }));
        Queues::new(ids, entries, kinds.n(), room)
    }
}

fn wrong(n_samples: usize) -> PositionError {
    PositionError::BeyondEpoch { key: "samples taken", value: u64::MAX, most: n_samples as u64 }
}
