//! Forward passes without gradients, under the same budget as training.

use std::ops::Range;
use std::time::{Duration, Instant};

use plimsoll_guard::GuardError;
use plimsoll_predict::{PartReading, Violation};
use plimsoll_step::{ForwardPasses, Pass, StepError};
use plimsoll_types::{Budget, Bytes, Extent, ItemsMeasured, StepShape};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::controller::Controller;
use crate::signal::StopFlag;
use crate::validation::Amount;

/// Runs items of one extent in batches as large as the budget allows.
///
/// The first batch is a single item; its peak certifies the next ones. A batch that does not fit is run again in two
/// halves: see [`ForwardPasses`].
///
/// Where the device reports no exact peaks, what training has reserved goes back to it first, and a batch that is
/// smaller than an earlier one teaches nothing, since its reading is the larger one's.
pub struct Inference<'a> {
    passes: ForwardPasses<'a>,
    controller: &'a mut Controller,
    budget: Budget,
    /// Readings above their bounds.
    violations: Vec<Violation>,
    /// Of the items that ran last.
    extent: Extent,
    stop: StopFlag,
    /// Whether readings decide anything.
    heeds: bool,
    /// The longest edge of which an item fits, where longer ones are known not to.
    longest: Option<u32>,
    /// Told of the shape of a batch before it runs.
    tell: Option<Box<dyn Fn(StepShape)>>,
    /// Which items are measured.
    items: Items<'a>,
    /// When it ends unless it is done.
    deadline: Option<Instant>,
}

/// Items of a set whose batches may take as long as they take: more may take minutes, in which somebody may ask for the end.
const FEW: u64 = 256;
/// Items of a group that are measured at least, where any are.
pub const OF_A_GROUP: usize = 8;
/// What a batch of many items may take.
const BATCH_TIME: Duration = Duration::from_millis(500);

/// Which items of a validation are measured, and how many are.
#[derive(Default)]
struct Items<'a> {
    amount: Amount,
    seed: u64,
    /// How many there are to be measured, and in all, once the job has said it.
    chosen: Option<ItemsMeasured>,
    n_done: u64,
    /// What one took in the last batch.
    seconds: Option<f64>,
    watch: Option<WatchItems<'a>>,
}

/// Told how many items are measured, and how many are to be.
pub(crate) type WatchItems<'a> = &'a mut dyn FnMut(u64, u64);

type Forward<'a> = dyn FnMut(Range<usize>) -> Result<(), StepError> + 'a;

impl<'a> Inference<'a> {
    /// Predicts with `controller`, and ends early when `stop` asks for it.
    pub fn new(passes: ForwardPasses<'a>, controller: &'a mut Controller, budget: Budget, stop: StopFlag) -> Self {
        Self {
            passes,
            controller,
            budget,
            violations: Vec::new(),
            extent: Extent::new(0),
            stop,
            heeds: true,
            longest: None,
            tell: None,
            items: Items::default(),
            deadline: None,
        }
    }

    /// Measures so many items, the same for the same seed.
    #[must_use]
    pub fn measuring(mut self, amount: Amount, seed: u64) -> Self {
        (self.items.amount, self.items.seed) = (amount, seed);
        self
    }

    /// Tells somebody how far it is.
    pub(crate) fn watched(mut self, watch: WatchItems<'a>) -> Self {
        self.items.watch = Some(watch);
        self
    }

    /// Ends it at that time, as if a signal had.
    pub(crate) fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// Chooses which of `n` items are measured, in their order: all, or one of each of as many parts of equal size, and the
    /// last.
    ///
    /// A job puts them into an order in which those that are alike are near each other, the largest last.
    pub fn choose(&mut self, n: usize) -> Vec<usize> {
        let chosen = match self.items.amount.of(n) {
            all if all == n => (0..n).collect(),
            part => spread(n, part, self.items.seed),
        };
        self.items.chosen = Some(ItemsMeasured { n: chosen.len() as u64, of: n as u64 });
        chosen
    }

    /// As [`Self::choose`] for items that lie in groups of these sizes, each of which costs something by itself: of a part, at
    /// least [`OF_A_GROUP`] of a group are measured, or all that it has, or none. Returns the groups, each with its items.
    pub fn choose_in(&mut self, groups: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let (n, seed) = (groups.iter().sum::<usize>(), self.items.seed);
        let most = self.items.amount.of(n);
        let chosen: Vec<(usize, Vec<usize>)> = if most == n {
            groups.iter().enumerate().map(|(group, n)| (group, (0..*n).collect())).collect()
        } else {
            spread_in(groups, most, seed)
        };
        let n_chosen: usize = chosen.iter().map(|it| it.1.len()).sum();
        self.items.chosen = Some(ItemsMeasured { n: n_chosen as u64, of: n as u64 });
        chosen
    }

    /// Returns how many items were chosen of how many; `None` where the job has not said.
    pub(crate) fn chosen(&self) -> Option<ItemsMeasured> {
        self.items.chosen
    }

    /// Whether any item was measured.
    pub(crate) fn has_begun(&self) -> bool {
        0 < self.items.n_done
    }

    /// Whether the run was asked to end, or the time is over: for work between two calls of [`Self::run`].
    ///
    /// # Errors
    ///
    /// [`StepError::Interrupted`] then.
    pub fn go_on(&self) -> Result<(), StepError> {
        let is_over = self.deadline.is_some_and(|it| it <= Instant::now());
        if is_over || self.stop.signal().is_some() { Err(StepError::Interrupted) } else { Ok(()) }
    }

    /// Lets no reading of memory decide anything: batches are as large as a plan allows, or single items without one.
    #[must_use]
    pub fn deterministic(self, is_so: bool) -> Self {
        let passes = if is_so { self.passes.unheeding() } else { self.passes };
        Self { passes, heeds: !is_so, ..self }
    }

    /// Runs no item of a longer edge than this, and says at once that it does not fit.
    #[must_use]
    pub fn up_to(self, longest: Option<u32>) -> Self {
        Self { longest, ..self }
    }

    /// Tells somebody the shape of every batch from here on, before it runs.
    pub fn on_batch(&mut self, tell: Box<dyn Fn(StepShape)>) {
        self.tell = Some(tell);
    }

    /// Returns the high-water mark so far.
    pub fn peak(&self) -> Bytes {
        self.passes.peak()
    }

    /// Returns the readings that were above their bounds.
    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// Returns the extent of the items that ran last, or failed.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Runs `n_items` of this `extent`; `forward` returns once the results of its range are on the host.
    ///
    /// `forward` may see the same range again, whole or in halves, when its memory exceeded the capacity: results must
    /// be stored by item, not appended.
    ///
    /// # Errors
    ///
    /// [`StepError::NeverFits`] when one item alone exceeds the capacity, is known to need more, or is longer than
    /// [`Self::up_to`] allows, [`StepError::Interrupted`] when the run was asked to end, or the error of `forward`.
    pub fn run(
        &mut self,
        n_items: usize,
        extent: impl Into<Extent>,
        forward: &mut dyn FnMut(Range<usize>) -> Result<(), StepError>,
    ) -> Result<(), StepError> {
        let extent = extent.into();
        self.extent = extent;
        if self.longest.is_some_and(|longest| longest < extent.edge()) {
            let Budget { capacity, budget } = self.budget;
            return Err(StepError::NeverFits {
                source: GuardError::NeverFits { sample: 0, needed: None, budget },
                capacity,
            });
        }
        let mut next = 0;
        while next < n_items {
            self.go_on()?;
            let begun = Instant::now();
            let resident = self.passes.resident()?;
            let n = (self.batch(extent, resident) as usize).min(n_items - next);
            // Where the clock decides nothing, batches are always the same.
            let n = if self.heeds { n.min(self.items.most_at_once()) } else { n };
            let (controller, violations, tell) = (&mut *self.controller, &mut self.violations, self.tell.as_deref());
            let mut batch = Batch { extent, controller, violations, tell, forward };
            self.passes.run(next..next + n, (extent, resident), self.budget, &mut batch)?;
            next += n;
            self.items.note(n, begun.elapsed());
        }
        Ok(())
    }

    fn batch(&self, extent: Extent, resident: Bytes) -> u32 {
        if self.heeds {
            return self.controller.inference_batch(extent, resident, self.budget.budget);
        }
        self.controller.planned_inference_batch(extent)
    }
}

/// A batch under way.
struct Batch<'a> {
    extent: Extent,
    controller: &'a mut Controller,
    violations: &'a mut Vec<Violation>,
    tell: Option<&'a dyn Fn(StepShape)>,
    forward: &'a mut Forward<'a>,
}

impl Pass for Batch<'_> {
    fn run(&mut self, items: Range<usize>) -> Result<(), StepError> {
        let n = u32::try_from(items.len()).unwrap_or(u32::MAX);
        self.tell.iter().for_each(|tell| tell(StepShape::of(n, self.extent)));
        (self.forward)(items)
    }

    /// What a loader takes for good meanwhile is none of a batch's need.
    fn learn(&mut self, read: PartReading, kept: Bytes) -> Result<(), StepError> {
        let learnt = self.controller.learn_inference(read, kept);
        self.violations.extend(learnt.map_err(|it| StepError::Device(it.to_string()))?);
        Ok(())
    }
}

impl Items<'_> {
    /// Returns how many items may run at once, so that an end that is asked for does not wait for long.
    fn most_at_once(&self) -> usize {
        let is_many = self.chosen.is_some_and(|it| FEW < it.of);
        let Some(seconds) = self.seconds.filter(|it| is_many && 0.0 < *it) else { return usize::MAX };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and a cast saturates")]
        let most = (BATCH_TIME.as_secs_f64() / seconds) as usize;
        most.max(1)
    }

    fn note(&mut self, n: usize, time: Duration) {
        self.n_done += n as u64;
        self.seconds = Some(time.as_secs_f64() / n as f64);
        if let (Some(watch), Some(chosen)) = (&mut self.watch, self.chosen) {
            watch(self.n_done.min(chosen.n), chosen.n);
        }
    }
}

/// Chooses `k` of `n`: one of each of `k` parts, at a place that the seed decides, and of the last part the last.
fn spread(n: usize, k: usize, seed: u64) -> Vec<usize> {
    let k = k.min(n);
    let bound = |part: usize| usize::try_from(part as u128 * n as u128 / k as u128).unwrap_or(n);
    let place = |(part, number): (usize, u64)| {
        let (from, to) = (bound(part), bound(part + 1));
        if part + 1 == k { n - 1 } else { from + usize::try_from(number).unwrap_or(0) % (to - from) }
    };
    (0..k).zip(numbers(seed)).map(place).collect()
}

/// Chooses about `k` items of groups of these sizes, some of each of as few groups as have a few.
fn spread_in(groups: &[usize], k: usize, seed: u64) -> Vec<(usize, Vec<usize>)> {
    let full: Vec<_> = (0..groups.len()).filter(|group| 0 < groups[*group]).collect();
    // What a few of each are together, so that groups of one item are taken one by one.
    let few: usize = full.iter().map(|group| groups[*group].min(OF_A_GROUP)).sum();
    let n_groups = (k * full.len()).div_ceil(few.max(1)).clamp(1, full.len().max(1));
    let of_each = k.div_ceil(n_groups);
    let seeds: Vec<_> = numbers(seed).take(groups.len()).collect();
    let of = |group: usize| (group, spread(groups[group], of_each.min(groups[group]), seeds[group]));
    spread(full.len(), n_groups, seed).into_iter().map(|at| of(full[at])).collect()
}

/// Returns what decides about places, the same for the same seed; half of the bits are enough for one.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut random = SplitMix64::seed_from_u64(seed);
    std::iter::repeat_with(move || random.next_u64() >> 32)
}

#[cfg(test)]
mod tests {
    use super::{spread, spread_in};

    #[test]
    fn a_part_of_the_items_is_spread_over_all_of_them_and_is_the_same_for_the_same_seed() {
        for (n, k) in [(1, 1), (7, 7), (10, 3), (6800, 64), (6800, 6799)] {
            let chosen = spread(n, k, 3);
            assert_eq!(chosen, spread(n, k, 3));
            assert!(chosen.len() == k && chosen.is_sorted_by(|a, b| a < b) && chosen.last() == Some(&(n - 1)));
            let gap = chosen.windows(2).map(|it| it[1] - it[0]).max().unwrap_or(0);
            assert!(gap <= 2 * n.div_ceil(k), "{n} {k}: {gap}");
        }
        assert_ne!(spread(6800, 64, 3), spread(6800, 64, 4));
    }

    #[test]
    fn as_many_items_are_chosen_of_groups_of_any_size() {
        for (groups, k, groups_taken) in
            [(vec![1; 3000], 512, 512), (vec![400; 20], 64, 8), (vec![0, 3, 0, 3, 0], 4, 2), (vec![2, 90, 0], 16, 2)]
        {
            let chosen = spread_in(&groups, k, 3);
            assert_eq!(chosen.len(), groups_taken, "{k} of {groups:?}");
            let n: usize = chosen.iter().map(|(_, items)| items.len()).sum();
            assert!(chosen.iter().all(|(group, items)| !items.is_empty() && items.len() <= groups[*group]));
            assert!(n <= k + groups_taken && k / 2 < n, "{n} instead of {k} of {groups:?}");
        }
    }
}
