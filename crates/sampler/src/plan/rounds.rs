//! As many batches for each of several takers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroUsize;

use super::batches::{Batches, Span, longest};
use super::narrow::narrow;
use super::planner::BatchPlanner;
use crate::CapacityRule;

impl<R: CapacityRule<AXES>, const AXES: usize> BatchPlanner<R, AXES> {
    /// Cuts the largest batches into parts until as many can go to each of some takers, one after the other, so that no
    /// sample is lost or comes twice for it; multiples stay multiples.
    ///
    /// Returns how many batches there are more, or `None` where they have too few samples: then nothing is cut.
    ///
    /// ```
    /// # use plimsoll_sampler::{BatchPlanner, PaddedBudget, PlanConfig, SampleIndex};
    /// # use std::num::NonZeroUsize;
    /// let index = SampleIndex::try_new([vec![10; 100]])?;
    /// let planner = BatchPlanner::try_new(index, PaddedBudget([90]), PlanConfig::default())?;
    /// let (mut batches, ranks) = (planner.plan_epoch(0), NonZeroUsize::new(8).unwrap());
    /// assert_eq!(batches.len(), 12);
    /// assert_eq!(planner.even_rounds(&mut batches, ranks), Some(4));
    /// assert_eq!((batches.len(), batches.n_samples()), (16, 100));
    /// # Ok::<(), plimsoll_sampler::SamplerError>(())
    /// ```
    pub fn even_rounds(&self, batches: &mut Batches<AXES>, n_takers: NonZeroUsize) -> Option<usize> {
        let n_more = batches.len().next_multiple_of(n_takers.get()) - batches.len();
        if n_more == 0 {
            return Some(0);
        }
        let multiple = self.config.multiple_of as usize;
        let sizes: Vec<usize> = batches.iter().map(|batch| batch.ids.len()).collect();
        let mut n_parts = vec![1; sizes.len()];
        // The parts of a batch are as large as each other; of equal ones the first is cut.
        let mut largest: BinaryHeap<_> = sizes.iter().copied().zip((0..sizes.len()).map(Reverse)).collect();
        for _ in 0..n_more {
            let may_be_cut = |at: usize| (n_parts[at] + 1) * multiple <= sizes[at];
            let (_, Reverse(at)) = std::iter::from_fn(|| largest.pop()).find(|(_, at)| may_be_cut(at.0))?;
            n_parts[at] += 1;
            largest.push((sizes[at].div_ceil(n_parts[at]), Reverse(at)));
        }
        let parts = batches.spans.iter().zip(&n_parts).flat_map(|(span, n)| self.parts(batches, span, *n));
        batches.spans = parts.collect();
        Some(n_more)
    }

    /// Cuts a batch into so many parts.
    fn parts(&self, batches: &Batches<AXES>, span: &Span<AXES>, n: usize) -> Vec<Span<AXES>> {
        if n == 1 {
            return vec![*span];
        }
        let (size, multiple) = ((span.end - span.start) as usize, self.config.multiple_of as usize);
        let end = |part: usize| if part == n { size } else { size * part / n / multiple * multiple };
        let part = |part: usize| {
            let (start, end) = (span.start + narrow(end(part)), span.start + narrow(end(part + 1)));
            let of = Span { start, end, partial: true, ..*span };
            let lengths = batches.ids_of(&of).iter().filter_map(|id| self.planned_lengths(*id));
            let longest = longest(lengths);
            Span { longest, cell: self.fit.of(longest).0, ..of }
        };
        (0..n).map(part).collect()
    }
}
