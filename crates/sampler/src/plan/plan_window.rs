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

/// The samples of a window: those that are drawn, and then those that are carried over.
///
/// Batches are filled from the last of equals: who was carried once is not carried again.
#[derive(Clone)]
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

/// The samples of a window that may be planned.
struct Waiting {
    ids: Vec<u32>,
    queued: Option<Queued>,
}

/// How samples wait that are told apart by their kinds only.
struct Queued {
    /// The kind of each that waits.
    kinds: Vec<u32>,
    queues: Queues,
}

impl<R: CapacityRule<AXES>, const AXES: usize> BatchPlanner<R, AXES> {
    /// Plans the next window; says whether there was one.
    pub(super) fn plan_window(&self, progress: &mut Progress, window: &mut Window<AXES>) -> bool {
        let before = progress.drawn.total();
        if before == self.identity.n_samples && progress.carried.0.is_empty() {
            window.batches.clear();
            return false;
        }
        let samples = self.draw(progress, Stretch::Window(self.window));
        self.plan(self.all_wait(samples), before, progress, window);
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
        let waiting = self.waiting(samples, Some(left))?;
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
        let Waiting { ids, queued } = self.waiting(samples.clone(), left)?;
        let mut bits = BitWriter::default();
        if let Some(Queued { mut queues, .. }) = queued.filter(|_| same_kinds) {
            for kind in self.kinds(&used) {
                queues.pop(kind);
            }
            queues.write(&mut bits);
            return Ok(Left { n_drawn, by_kind: true, taken: bits.finish() });
        }
        used.sort_unstable();
        // Those that wait in queues are in another order.
        let mut waits = ids;
        waits.sort_unstable();
        for id in &samples.ids {
            let waited = waits.binary_search(id).is_ok();
            bits.push(u64::from(!waited || used.binary_search(id).is_ok()), 1);
        }
        Ok(Left { n_drawn, by_kind: false, taken: bits.finish() })
    }

    /// What waits of a window.
    fn waiting(&self, samples: Samples, left: Option<&Left>) -> Result<Waiting, SamplerError> {
        let Some(Left { by_kind, taken, .. }) = left else { return Ok(self.all_wait(samples)) };
        let most = samples.ids.len() as u64;
        let wrong = || SamplerError::BeyondEpoch { key: "samples taken", value: u64::MAX, most };
        let mut bits = taken.reader();
        if *by_kind {
            within("kinds", self.n_kinds().unwrap_or(usize::MAX) as u64, MOST_KINDS as u64)?;
            let ids = samples.carried_first();
            let Queued { kinds, queues } = self.queued(&ids);
            let queues = queues.read(&mut bits).ok_or_else(wrong)?;
            let (ids, kinds) = queues.left(&ids, &kinds);
            return Ok(Waiting { ids, queued: Some(Queued { kinds, queues }) });
        }
        let mut ids = Vec::new();
        for id in samples.ids {
            if bits.next(1).ok_or_else(wrong)? == 0 {
                ids.push(id);
            }
        }
        Ok(Waiting { ids, queued: None })
    }

    fn all_wait(&self, samples: Samples) -> Waiting {
        if self.has_kinds(samples.ids.len()) {
            let ids = samples.carried_first();
            return Waiting { queued: Some(self.queued(&ids)), ids };
        }
        Waiting { ids: samples.ids, queued: None }
    }

    fn draw(&self, progress: &mut Progress, stretch: Stretch) -> Samples {
        let mut ids = Vec::new();
        self.source.draw(progress.epoch, &mut progress.drawn, stretch, &mut ids);
        let n_drawn = ids.len();
        ids.extend_from_slice(&progress.carried.0);
        Samples { ids, n_drawn }
    }

    fn plan(&self, waiting: Waiting, stream: u64, progress: &mut Progress, window: &mut Window<AXES>) {
        let Waiting { ids, queued } = waiting;
        let mut rng = Rng::new(Use::Batches, self.config.seed, progress.epoch, stream);
        let most_carried = self.window.min(MOST_CARRIED);
        let most_carried = if progress.drawn.total() < self.identity.n_samples { most_carried } else { 0 };
        let mut carried = Vec::new();
        match queued {
            None => {
                self.fill_in(&ids, |_, id| id, window);
                self.recipe(self.index.tasks()).plan(window, &mut rng);
                window.take_partial(most_carried, &mut carried);
            }
            Some(Queued { kinds, mut queues }) => {
                self.fill_in(&ids, |at, _| at, window);
                let of = self.index.tasks().map(|of| ids.iter().map(|id| of[*id as usize]).collect::<Vec<_>>());
                self.recipe(of.as_deref()).plan(window, &mut rng);
                window.take_partial(most_carried, &mut carried);
                // The first batch in time has the first samples of each kind.
                let mut pop = |at: u32| queues.pop(kinds[at as usize]);
                window.batches.replace(&mut pop);
                for at in &mut carried {
                    *at = pop(*at);
                }
                self.measure(window);
            }
        }
        progress.carried = Ids::from_iter(carried);
    }

    /// Fills the samples into the window, each by a name that depends on its place and its id.
    fn fill_in(&self, ids: &[u32], name: impl Fn(u32, u32) -> u32, window: &mut Window<AXES>) {
        let places = (0..).zip(ids);
        window.entries.clear();
        match self.n_oversize {
            0 => window
                .entries
                .extend(places.map(|(at, id)| Entry { lengths: self.index.lengths(*id), id: name(at, *id) })),
            _ => window.entries.extend(places.filter_map(|(at, id)| {
                let lengths = self.planned_lengths(*id)?;
                Some(Entry { lengths, id: name(at, *id) })
            })),
        }
    }

    /// Looks for the longest of each batch, where samples of other lengths have come into it.
    fn measure(&self, window: &mut Window<AXES>) {
        if (0..AXES).any(|axis| self.has_edges(axis)) {
            window.batches.measure(|id| self.planned_lengths(id).unwrap_or([0; AXES]));
        }
    }

    fn recipe<'a>(&'a self, tasks: Option<&'a [u16]>) -> Recipe<'a, R, AXES> {
        let tasks = tasks.map(|of| Tasks { of, n: self.index.n_tasks() });
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

    fn queued(&self, samples: &[u32]) -> Queued {
        let kinds = self.kinds(samples);
        let queues = Queues::new(samples, &kinds, self.n_kinds().unwrap_or(0));
        Queued { kinds, queues }
    }

    /// How many kinds of samples there may be; `None` when they are too many to be counted.
    fn n_kinds(&self) -> Option<usize> {
        let n = (0..AXES).try_fold(self.index.n_tasks(), |n, axis| n.checked_mul(self.n_kinds_on(axis)));
        n.filter(|n| *n <= MOST_KINDS)
    }

    /// Which samples are as good as each other: those of one task that are padded alike.
    fn kinds(&self, samples: &[u32]) -> Vec<u32> {
        let axes: [_; AXES] = std::array::from_fn(|axis| (self.has_edges(axis), self.n_kinds_on(axis)));
        let kind = |id: &u32| {
            let task = self.index.tasks().map_or(0, |tasks| usize::from(tasks[*id as usize]));
            let lengths = self.index.lengths(*id).into_iter().enumerate();
            let kind = lengths.zip(axes).fold(task, |kind, ((axis, length), (has_edges, n))| {
                kind * n + if has_edges { self.config.lattice.rank(axis, length) } else { length as usize }
            });
            narrow(kind)
        };
        samples.iter().map(kind).collect()
    }

    fn n_kinds_on(&self, axis: usize) -> usize {
        1 + if self.has_edges(axis) { self.config.lattice.n_edges(axis) } else { self.index.longest()[axis] as usize }
    }

    /// Rows are padded as a whole, so that their samples have no cells.
    fn has_edges(&self, axis: usize) -> bool {
        self.config.lattice.n_edges(axis) > 0 && self.config.objective != Objective::FewestRows
    }
}
