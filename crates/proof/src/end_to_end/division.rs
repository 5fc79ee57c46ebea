//! How samples are divided into batches, and batches into optimizer steps.

use std::cmp::Reverse;
use std::fmt;

use plimsoll_sampler::{CapacityRule, Permutation, SampleIndex, SamplerError, StepSize};
use serde::Serialize;

use super::{Batch, Rule};

/// How samples are divided into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By plan.
    Plimsoll,
    /// At random, as many as are safe whatever their lengths.
    Fixed,
    /// At random, as many as fit.
    Random,
    /// At random among those of about one length, as many positions as are safe whatever the length.
    Bucketed,
    /// By length within each run of batches at random, as many as are safe whatever their lengths.
    Sorted,
}

impl Method {
    /// All of them, in the order of their turns.
    pub const ALL: [Self; 5] = [Self::Plimsoll, Self::Fixed, Self::Random, Self::Bucketed, Self::Sorted];
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plimsoll => "plimsoll",
            Self::Fixed => "fixed",
            Self::Random => "random",
            Self::Bucketed => "bucketed",
            Self::Sorted => "sorted",
        })
    }
}

/// Some optimizer steps of one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The epoch.
    pub epoch: u64,
    /// Whose steps these are.
    pub method: Method,
    /// The micro-batches of each step.
    pub steps: Vec<Vec<Batch>>,
    /// Sum of the lengths.
    pub units: u64,
    /// Sum of the padded lengths.
    pub padded: u64,
}

/// Buckets of lengths: the default of lhotse's `DynamicBucketingSampler`.
const N_BUCKETS: u64 = 30;

/// Batches that are sorted together: those of Hugging Face's `LengthGroupedSampler`.
const N_SORTED: usize = 50;

/// Rounds of an epoch, where it has as many steps: in each, all methods have a turn.
pub const N_ROUNDS: usize = 8;

/// Samples, and what their batches and steps may hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// The lengths of an epoch's samples.
    pub index: SampleIndex<1>,
    /// What their source calls these samples.
    pub ids: Vec<u64>,
    /// How many fit.
    pub rule: Rule,
    /// What Plimsoll pads to; the last one holds the longest sample.
    pub edges: Vec<u32>,
    /// Whether Plimsoll packs samples instead, into rows of the last edge.
    pub is_packed: bool,
    /// What an optimizer step takes.
    pub size: StepSize,
    /// Into how many batches Plimsoll divides a step at least.
    pub batches_per_step: u32,
    /// Where the order comes from, together with the epoch.
    pub seed: u64,
}

impl Division {
    /// Divides epoch after epoch into turns: in each round, every method has one.
    ///
    /// The first round comes twice, the first time to warm up.
    ///
    /// # Errors
    ///
    /// [`SamplerError`] when a sample fits nowhere, or the edges do not grow.
    pub fn schedule(&self) -> Result<impl Iterator<Item = Turn> + '_, SamplerError> {
        let warm_up = self.turns(0)?.into_iter().take(Method::ALL.len());
        Ok(warm_up.chain((0..).map_while(|epoch| self.turns(epoch).ok()).flatten()))
    }

    fn turns(&self, epoch: u64) -> Result<Vec<Turn>, SamplerError> {
        let steps = Method::ALL.map(|method| self.steps(method, epoch));
        let steps = steps.into_iter().collect::<Result<Vec<_>, _>>()?;
        let n_rounds = steps.iter().map(Vec::len).min().unwrap_or(0).min(N_ROUNDS);
        let round = |round: usize| {
            Method::ALL.into_iter().zip(&steps).map(move |(method, steps)| {
                let share = round * steps.len() / n_rounds..(round + 1) * steps.len() / n_rounds;
                self.turn(epoch, method, &steps[share])
            })
        };
        Ok((0..n_rounds).flat_map(round).collect())
    }

    fn turn(&self, epoch: u64, method: Method, steps: &[Vec<Batch>]) -> Turn {
        let batches = || steps.iter().flatten();
        let id = |id: &u64| self.ids[usize::try_from(*id).unwrap_or(usize::MAX)];
        let named = |batch: &Batch| Batch { ids: batch.ids.iter().map(id).collect(), ..batch.clone() };
        Turn {
            epoch,
            method,
            units: batches().map(|it| self.units(it)).sum(),
            padded: batches().map(Batch::padded).sum(),
            steps: steps.iter().map(|step| step.iter().map(named).collect()).collect(),
        }
    }

    /// Divides an epoch into optimizer steps.
    ///
    /// A step of Plimsoll ends with the sample by which the epoch's sum reaches the next multiple of the size, whose
    /// batch is cut, or with its row where samples are packed; one of the other methods with the batch of that sample.
    fn steps(&self, method: Method, epoch: u64) -> Result<Vec<Vec<Batch>>, SamplerError> {
        Ok(match method {
            Method::Plimsoll if self.is_packed => self.packed(epoch)?,
            Method::Plimsoll => self.padded(epoch)?,
            Method::Fixed => self.grouped(self.filled(self.order(epoch), |n, _| n < self.fixed())),
            Method::Random => {
                self.grouped(self.filled(self.order(epoch), |n, longest| n < self.rule.capacity([longest]) as usize))
            }
            Method::Bucketed => self.grouped(self.bucketed(epoch)),
            Method::Sorted => self.grouped(self.sorted(epoch)),
        })
    }

    /// Returns how many samples are safe whatever their lengths.
    fn fixed(&self) -> usize {
        self.rule.capacity(self.index.longest()) as usize
    }

    /// Returns all samples at random.
    fn order(&self, epoch: u64) -> impl Iterator<Item = u64> + use<> {
        let n_samples = self.index.n_samples() as u64;
        let order = Permutation::new(n_samples, self.seed, epoch);
        (0..n_samples).map(move |at| order.at(at))
    }

    /// Fills the batches of each of [`N_BUCKETS`] buckets with its samples at random, and lets all come at random.
    ///
    /// A bucket has as many positions as any other. A batch has as many with its padding as are safe at every length, which is
    /// what a user sets who sets one number.
    fn bucketed(&self, epoch: u64) -> Vec<Batch> {
        let (longest, most) = (self.index.longest()[0], self.rule.capacity([1]));
        // Where a batch could hold as many as a step takes, memory is not the limit.
        let limited = (1..=longest).filter(|it| *it == longest || self.rule.capacity([*it]) < most);
        let safe = limited.map(|it| u64::from(it) * u64::from(self.rule.capacity([it]))).min().unwrap_or(0);
        let mut by_length: Vec<_> = (0..self.index.n_samples() as u64).collect();
        by_length.sort_by_key(|id| self.length(*id));
        let of_bucket = by_length.iter().map(|id| u64::from(self.length(*id))).sum::<u64>().div_ceil(N_BUCKETS);
        let (mut starts, mut taken) = (vec![0], 0);
        for length in by_length.iter().map(|id| self.length(*id)) {
            if of_bucket < taken {
                starts.push(length);
                taken = 0;
            }
            taken += u64::from(length);
        }
        let mut buckets = vec![Vec::new(); starts.len()];
        for id in self.order(epoch) {
            buckets[starts.partition_point(|it| *it <= self.length(id)) - 1].push(id);
        }
        let has_room = |n: usize, longest: u32| (n as u64 + 1) * u64::from(longest) <= safe;
        let batches: Vec<_> = buckets.into_iter().flat_map(|bucket| self.filled(bucket, has_room)).collect();
        let order = Permutation::new(batches.len() as u64, self.seed + 1, epoch);
        let at = |at| usize::try_from(order.at(at)).unwrap_or(usize::MAX);
        (0..batches.len() as u64).map(|it| batches[at(it)].clone()).collect()
    }

    /// Sorts each run of samples at random that fills [`N_SORTED`] batches by length, the longest first, and takes as many at
    /// a time as are safe whatever their lengths.
    fn sorted(&self, epoch: u64) -> Vec<Batch> {
        let mut order: Vec<_> = self.order(epoch).collect();
        for run in order.chunks_mut(N_SORTED * self.fixed().max(1)) {
            run.sort_by_key(|id| Reverse(self.length(*id)));
        }
        self.filled(order, |n, _| n < self.fixed())
    }

    /// Fills batches with samples in order; `has_room` is told the samples of a batch and what the longest would be with the
    /// next.
    fn filled(&self, order: impl IntoIterator<Item = u64>, has_room: impl Fn(usize, u32) -> bool) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for id in order {
            let length = self.length(id);
            match batches.last_mut().filter(|batch| has_room(batch.ids.len(), batch.edge.max(length))) {
                Some(batch) => {
                    batch.ids.push(id);
                    batch.edge = batch.edge.max(length);
                }
                None => batches.push(Batch { ids: vec![id], edge: length, packed: None }),
            }
        }
        batches
    }

    /// Gathers batches into steps, whole.
    fn grouped(&self, batches: Vec<Batch>) -> Vec<Vec<Batch>> {
        let (size, counts_positions) = match self.size {
            StepSize::Samples(n) => (n.into(), false),
            StepSize::Positions(n) => (n, true),
            StepSize::Batch => (1, false),
        };
        let (mut steps, mut step, mut taken) = (Vec::new(), Vec::new(), 0);
        for batch in batches {
            let units = if counts_positions { self.units(&batch) } else { batch.ids.len() as u64 };
            let is_end = taken / size < (taken + units) / size;
            taken += units;
            step.push(batch);
            if is_end {
                steps.push(std::mem::take(&mut step));
            }
        }
        steps.extend(Some(step).filter(|rest| !rest.is_empty()));
        steps
    }

    /// Sum of a batch's lengths.
    fn units(&self, batch: &Batch) -> u64 {
        batch.ids.iter().map(|id| u64::from(self.length(*id))).sum()
    }

    fn length(&self, id: u64) -> u32 {
        self.index.get(id).map_or(0, |[length]| length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn division(lengths: Vec<u32>, budget: u32, size: StepSize) -> Division {
        let longest = lengths.iter().copied().max().unwrap();
        let edges = vec![longest.div_ceil(3), longest.div_ceil(2), longest];
        let edges = edges.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        let rule = Rule::new((1..=longest).map(|length| budget / length).collect());
        let ids = (0..lengths.len() as u64).map(|id| 1000 + id).collect();
        let index = SampleIndex::try_new([lengths]).unwrap();
        Division { index, ids, rule, edges, is_packed: false, size, batches_per_step: 2, seed: 3 }
    }

    proptest! {
        #[test]
        fn every_sample_comes_once_and_no_batch_is_above_the_rule(
            lengths in prop::collection::vec(1u32..=50, 1..200),
            budget in 50u32..400,
            size in 1u32..64,
            epoch in 0u64..3,
            counts_positions: bool,
            is_packed: bool,
        ) {
            let size = if counts_positions { StepSize::Positions(size.into()) } else { StepSize::Samples(size) };
            let division = Division { is_packed, ..division(lengths, budget, size) };
            for method in Method::ALL {
                let steps = division.steps(method, epoch).unwrap();
                let mut ids: Vec<_> = steps.iter().flatten().flat_map(|it| it.ids.clone()).collect();
                ids.sort_unstable();
                prop_assert!(ids.into_iter().eq(0..division.index.n_samples() as u64), "{}", method);
                for batch in steps.iter().flatten() {
                    prop_assert!(batch.n_rows() <= division.rule.capacity([batch.edge]) as usize, "{batch:?}");
                    let mut rest = batch.ids.iter();
                    let sizes = batch.packed.clone().unwrap_or_else(|| vec![1; batch.ids.len()]);
                    for size in sizes {
                        let n: u32 = rest.by_ref().take(size as usize).map(|id| division.length(*id)).sum();
                        prop_assert!(n <= batch.edge, "{batch:?}");
                    }
                    prop_assert_eq!(rest.next(), None);
                }
            }
        }
    }

    #[test]
    fn fixed_batches_are_those_that_the_longest_sample_allows() {
        let division = division((1..=40).collect(), 160, StepSize::Samples(8));
        let steps = division.steps(Method::Fixed, 0).unwrap();
        assert!(steps.iter().flatten().all(|batch| batch.ids.len() == 4));
        assert_eq!((steps.len(), steps[0].len()), (5, 2));
    }

    #[test]
    fn random_batches_are_as_full_as_their_longest_sample_allows() {
        let division = division((1..=40).collect(), 160, StepSize::Samples(8));
        let steps = division.steps(Method::Random, 0).unwrap();
        let batches: Vec<_> = steps.iter().flatten().collect();
        for pair in batches.windows(2) {
            let longest = pair[0].edge.max(division.length(pair[1].ids[0]));
            assert!(division.rule.capacity([longest]) as usize <= pair[0].ids.len(), "{pair:?}");
        }
    }

    #[test]
    fn batches_of_a_bucket_are_of_about_one_length_and_hold_what_is_safe_at_every_length() {
        let lengths: Vec<u32> = (0..3000).map(|id| 1 + id * 37 % 100).collect();
        let division = division(lengths, 450, StepSize::Samples(8));
        let batches = division.bucketed(0);
        let least = (1..=100u32).map(|it| it * (450 / it)).min().unwrap();
        for batch in &batches {
            assert!(batch.padded() <= u64::from(least), "{batch:?}");
            let shortest = batch.ids.iter().map(|id| division.length(*id)).min().unwrap();
            assert!(batch.edge - shortest <= 20, "{batch:?}");
        }
        let edges: Vec<_> = batches.iter().map(|it| it.edge).collect();
        assert!(!edges.is_sorted() && !edges.is_sorted_by_key(|it| Reverse(*it)), "they come at random");
    }

    #[test]
    fn batches_that_are_sorted_together_get_shorter_and_then_begin_again() {
        let lengths: Vec<u32> = (0..1000).map(|id| 1 + id * 37 % 100).collect();
        let division = division(lengths, 450, StepSize::Samples(8));
        let batches = division.sorted(0);
        assert!(batches.iter().all(|it| it.ids.len() == 4));
        for run in batches.chunks(N_SORTED) {
            assert!(run.iter().all(|it| it.edge <= run[0].edge) && run.is_sorted_by_key(|it| Reverse(it.edge)));
        }
        assert!(batches[N_SORTED - 1].edge < batches[N_SORTED].edge);
    }

    #[test]
    fn all_methods_make_as_many_steps_of_about_one_size() {
        let lengths: Vec<u32> = (0..500).map(|id| 1 + id * 37 % 50).collect();
        let division = division(lengths, 200, StepSize::Positions(1000));
        let sum: u64 = (0..500).map(|id| u64::from(division.length(id))).sum();
        for method in Method::ALL {
            assert_eq!(division.steps(method, 1).unwrap().len() as u64, sum.div_ceil(1000), "{method}");
        }
    }

    #[test]
    fn each_epoch_is_run_once_in_turns_after_a_round_to_warm_up() {
        let lengths: Vec<u32> = (0..500).map(|id| 1 + id * 37 % 50).collect();
        let division = division(lengths, 200, StepSize::Positions(1000));
        let sum: u64 = (0..500).map(|id| u64::from(division.length(id))).sum();
        let n_methods = Method::ALL.len();
        let turns: Vec<_> = division.schedule().unwrap().take((1 + 2 * N_ROUNDS) * n_methods).collect();
        assert_eq!(turns[..n_methods], turns[n_methods..2 * n_methods]);
        for (at, method) in Method::ALL.into_iter().enumerate() {
            let own: Vec<_> = turns.iter().skip(at + n_methods).step_by(n_methods).collect();
            assert!(own.iter().all(|turn| turn.method == method && turn.units < turn.padded), "{method}");
            for (epoch, turns) in (0..).zip(own.chunks(N_ROUNDS)) {
                assert!(turns.iter().all(|turn| turn.epoch == epoch));
                assert_eq!(turns.iter().map(|turn| turn.units).sum::<u64>(), sum, "{method}");
                let batches = turns.iter().flat_map(|turn| turn.steps.iter().flatten());
                let mut ids: Vec<_> = batches.flat_map(|batch| batch.ids.clone()).collect();
                ids.sort_unstable();
                assert_eq!(ids, division.ids, "{method}");
            }
        }
    }
}
