//! From a place in the epoch to the batches of a window.

use super::compact::{BitWriter, Ids, width};
use super::config::{ALL, Objective, PlanConfig, WINDOW};
use super::draw::Stretch;
use super::entry::Entry;
use super::narrow::narrow;
use super::planner::{BatchPlanner, Progress};
use super::position::{Left, within};
use super::queues::Queues;
use super::tasks::Tasks;
use super::window::{Recipe, Window};
use crate::hash::{Rng, Use};
use crate::{CapacityRule, SampleIndex, SamplerError};

/// The most samples that are carried from a window to the next: a position names each, which takes 4 bytes in JSON where
/// there are ten million.
const MOST_CARRIED: usize = 256;

/// The most kinds that are counted; a window of more is told apart sample by sample.
const MOST_KINDS: usize = 1 << 20;

/// The most bits that may tell what is taken of a window that nobody asked for: 3.3 kB of JSON.
const MOST_BITS: u64 = 20_000;

/// How many samples come into one window: what the configuration says, or less where nobody asked for it and lengths
/// are of so many kinds that a position in so large a window would be large too.
pub(super) fn chosen_window<const AXES: usize>(index: &SampleIndex<AXES>, config: &PlanConfig<AXES>) -> usize {
    let n_samples = index.n_samples();
    let window = config.window(n_samples);
    let is_chosen = config.window.is_none() && AXES == 1 && config.lattice.n_edges(0) == 0;
    if is_chosen && window > WINDOW && n_bits(index) > MOST_BITS {
        return PlanConfig { window: Some(WINDOW), ..config.clone() }.window(n_samples);
    }
    window
}

/// How many bits it takes to say how many there are of each length on the first axis.
fn n_bits<const AXES: usize>(index: &SampleIndex<AXES>) -> u64 {
    let longest = index.longest()[0] as usize;
    if index.n_samples() > ALL || longest >= MOST_KINDS {
        return u64::MAX;
    }
    let mut counts = vec![0u64; longest + 1];
    for id in 0..narrow(index.n_samples()) {
        counts[index.lengths(id)[0] as usize] += 1;
    }
    counts.into_iter().map(|count| u64::from(width(count))).sum()
}

/// The samples of a window that may be planned, in the order in which they were drawn.
struct Waiting {
    ids: Vec<u32>,
    queues: Option<Queues>,
}

impl<R: CapacityRule<AXES>, const AXES: usize> BatchPlanner<R, AXES> {
    /// Plans the next window; says whether there was one.
    pub(super) fn plan_window(&self, progress: &mut Progress, window: &mut Window<AXES>) -> bool {
        let before = progress.drawn.total();
        if before == self.identity.n_samples && progress.carried.0.is_empty() {
            window.batches.clear();
            return false;
        }
        let ids = self.draw(progress, Stretch::Window(self.window));
        let queues = self.has_kinds(ids.len()).then(|| self.queues(&ids));
        self.plan(Waiting { ids, queues }, before, progress, window);
        true
    }

    /// Plans what other rules have left of the next window.
    pub(super) fn plan_left(
        &self,
        left: &Left,
        progress: &mut Progress,
        window: &mut Window<AXES>,
    ) -> Result<(), SamplerError> {
        let before = progress.drawn.total();
        let samples = self.draw(progress, Stretch::Exactly(left.n_drawn));
        let waiting = self.waiting(&samples, Some(left))?;
        // Another plan of the same window has another order.
        let stream = before | (1 + waiting.ids.len() as u64) << u32::BITS;
        self.plan(waiting, stream, progress, window);
        Ok(())
    }

    /// What is left of a window when these samples of it were used besides those that were taken before.
    pub(super) fn left(
        &self,
        before: &Progress,
        n_drawn: u64,
        left: Option<&Left>,
        mut used: Vec<u32>,
        same_kinds: bool,
    ) -> Result<Left, SamplerError> {
        let samples = self.draw(&mut before.clone(), Stretch::Exactly(n_drawn));
        let Waiting { ids, queues } = self.waiting(&samples, left)?;
        let mut bits = BitWriter::default();
        if let Some(mut queues) = queues.filter(|_| same_kinds) {
            for id in &used {
                queues.pop(self.kind(*id));
            }
            queues.write(&mut bits);
            return Ok(Left { n_drawn, by_kind: true, taken: bits.finish() });
        }
        used.sort_unstable();
        let mut waits = ids.into_iter().peekable();
        for id in &samples {
            let waited = waits.next_if_eq(id).is_some();
            bits.push(u64::from(!waited || used.binary_search(id).is_ok()), 1);
        }
        Ok(Left { n_drawn, by_kind: false, taken: bits.finish() })
    }

    /// What waits of a window.
    fn waiting(&self, samples: &[u32], left: Option<&Left>) -> Result<Waiting, SamplerError> {
        let Some(Left { by_kind, taken, .. }) = left else {
            let queues = self.has_kinds(samples.len()).then(|| self.queues(samples));
            return Ok(Waiting { ids: samples.to_vec(), queues });
        };
        let wrong = || SamplerError::BeyondEpoch { key: "samples taken", value: u64::MAX, most: samples.len() as u64 };
        let mut bits = taken.reader();
        if *by_kind {
            within("kinds", self.n_kinds().unwrap_or(usize::MAX) as u64, MOST_KINDS as u64)?;
            let queues = self.queues(samples).read(&mut bits).ok_or_else(wrong)?;
            return Ok(Waiting { ids: queues.left(samples, |id| self.kind(id)), queues: Some(queues) });
        }
        let mut ids = Vec::new();
        for id in samples {
            if bits.next(1).ok_or_else(wrong)? == 0 {
                ids.push(*id);
            }
        }
        Ok(Waiting { ids, queues: None })
    }

    /// The samples of a window: those that are drawn, and then those that are carried over.
    ///
    /// Batches are filled from the last of equals: who was carried once is not carried again.
    fn draw(&self, progress: &mut Progress, stretch: Stretch) -> Vec<u32> {
        let mut ids = Vec::new();
        self.source.draw(progress.epoch, &mut progress.drawn, stretch, &mut ids);
        ids.extend_from_slice(&progress.carried.0);
        ids
    }

    fn plan(&self, waiting: Waiting, stream: u64, progress: &mut Progress, window: &mut Window<AXES>) {
        let Waiting { ids, mut queues } = waiting;
        window.entries.clear();
        match self.n_oversize {
            0 => window.entries.extend(ids.iter().map(|id| Entry { lengths: self.index.lengths(*id), id: *id })),
            _ => window.entries.extend(ids.iter().filter_map(|id| self.entry(*id))),
        }
        self.recipe().plan(window, &mut Rng::new(Use::Batches, self.config.seed, progress.epoch, stream));
        let mut carried = Vec::new();
        if progress.drawn.total() < self.identity.n_samples {
            window.take_partial(self.window.min(MOST_CARRIED), &mut carried);
        }
        if let Some(queues) = &mut queues {
            self.requeue(queues, window);
            carried.iter_mut().for_each(|id| *id = queues.pop(self.kind(*id)));
        }
        progress.carried = Ids::from_iter(carried);
    }

    /// Lets the first batch in time have the first samples of each kind.
    fn requeue(&self, queues: &mut Queues, window: &mut Window<AXES>) {
        window.batches.replace(|id| queues.pop(self.kind(id)));
        if (0..AXES).any(|axis| self.has_edges(axis)) {
            window.batches.measure(|id| self.planned_lengths(id).unwrap_or([0; AXES]));
        }
    }

    fn entry(&self, id: u32) -> Option<Entry<AXES>> {
        Some(Entry { lengths: self.planned_lengths(id)?, id })
    }

    fn recipe(&self) -> Recipe<'_, R, AXES> {
        let tasks = self.index.tasks().map(|of| Tasks { of, n: self.index.n_tasks() });
        let window_share = self.window as f64 / self.index.n_samples() as f64;
        Recipe { config: &self.config, fit: &self.fit, tasks, axes: &self.axes, window_share }
    }

    /// Whether the samples of a window are told apart by their kinds only.
    ///
    /// Cells are few; of lengths there are as many as a small window has samples, and more than it pays to count in one
    /// that was asked to be huge.
    fn has_kinds(&self, n_samples: usize) -> bool {
        let has_cells = (0..AXES).all(|axis| self.has_edges(axis));
        let is_large = WINDOW + MOST_CARRIED < n_samples && n_samples <= ALL + MOST_CARRIED;
        (has_cells || is_large) && self.n_kinds().is_some()
    }

    fn queues(&self, samples: &[u32]) -> Queues {
        Queues::new(samples, self.n_kinds().unwrap_or(0), |id| self.kind(id))
    }

    /// How many kinds of samples there may be; `None` when they are too many to be counted.
    fn n_kinds(&self) -> Option<usize> {
        let n = (0..AXES).try_fold(self.index.n_tasks(), |n, axis| n.checked_mul(self.n_kinds_on(axis)));
        n.filter(|n| *n <= MOST_KINDS)
    }

    /// Which samples are as good as each other: those of one task that are padded alike.
    fn kind(&self, id: u32) -> usize {
        let task = self.index.tasks().map_or(0, |tasks| usize::from(tasks[id as usize]));
        let lengths = self.index.lengths(id);
        lengths.into_iter().enumerate().fold(task, |kind, (axis, length)| {
            let at = if self.has_edges(axis) { self.config.lattice.rank(axis, length) } else { length as usize };
            kind * self.n_kinds_on(axis) + at
        })
    }

    fn n_kinds_on(&self, axis: usize) -> usize {
        1 + if self.has_edges(axis) { self.config.lattice.n_edges(axis) } else { self.index.longest()[axis] as usize }
    }

    /// Rows are padded as a whole, so that their samples have no cells.
    fn has_edges(&self, axis: usize) -> bool {
        self.config.lattice.n_edges(axis) > 0 && self.config.objective != Objective::FewestRows
    }
}
