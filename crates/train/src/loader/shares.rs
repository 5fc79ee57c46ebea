//! Which rows of a step a rank runs, where several divide steps between them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::{BatchToDeal, DealError, Speeds, deal_batches};
use plimsoll_types::{Cells, Extent};

use crate::source::{Draw, Part};

/// What each rank holds at once, as all of them have heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Which of the ranks this one is.
    pub(crate) rank: usize,
    /// Of every rank, for each cell, or where samples are cut for the edge that is wanted.
    pub(crate) of_ranks: Vec<Vec<u32>>,
}

impl Limits {
    /// Returns what each rank holds at once of samples of this extent, and of what number that is a multiple.
    fn of(&self, extent: Extent, cells: &Cells, multiple_of: u32) -> (Vec<u32>, u32) {
        let at = cells.at(extent).unwrap_or(cells.len().saturating_sub(1));
        let mut limits: Vec<_> = self.of_ranks.iter().map(|it| it[at]).collect();
        let multiple_of = held_multiple(multiple_of, &limits);
        for limit in &mut limits {
            *limit -= *limit % multiple_of;
        }
        (limits, multiple_of)
    }

    /// Returns what this rank holds at once of samples of this extent.
    pub(crate) fn own(&self, extent: Extent, cells: &Cells, multiple_of: u32) -> u32 {
        self.of(extent, cells, multiple_of).0[self.rank]
    }
}

/// Returns the multiple of samples that batches are to have, or 1 where a rank that holds any holds fewer: then as many as fit.
fn held_multiple(multiple_of: u32, limits: &[u32]) -> u32 {
    let is_held = limits.iter().all(|it| *it == 0 || multiple_of <= *it);
    if is_held { multiple_of.max(1) } else { 1 }
}

/// Who runs how many rows of each part of a step: those of the first rank come first, and so on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Dealt {
    /// Of each part what each rank runs.
    counts: Vec<Vec<u32>>,
}

impl Dealt {
    /// Lets one rank run all there is.
    pub(super) fn to_one(draw: &Draw) -> Self {
        Self { counts: draw.parts.iter().map(|it| vec![whole(it.n_rows() as u64)]).collect() }
    }

    /// Returns which rows of each part a rank runs.
    pub(crate) fn rows_of(&self, rank: usize) -> impl Iterator<Item = Range<usize>> {
        let n_of = |counts: &[u32]| counts.iter().map(|it| *it as usize).sum::<usize>();
        self.counts.iter().map(move |counts| n_of(&counts[..rank])..n_of(&counts[..=rank]))
    }
}

/// Returns a number of samples or positions, or the most that there may be.
pub(crate) fn whole(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Shares that are off by more than this part of what they should be are dealt anew, with what was read for them.
const MUCH: f64 = 0.25;

/// Deals the steps of a loader to the ranks, each alike.
///
/// A step is dealt when it is planned, so that each rank reads what it runs. How far ahead that is differs between the ranks, so
/// they deal by the speeds that all of them know by then: those from before as many steps as any may be ahead. Where a rank turns
/// out to be much faster or slower than that, as after the first step, the steps ahead are dealt anew.
/// What shows its samples only when it is read, as a stream does, is dealt when it is delivered.
pub(super) struct Shares {
    /// None where a rank is alone.
    limits: Option<Arc<Limits>>,
    /// How fast the ranks were, with the number of the delivered step before which that was heard; at least one where there are
    /// limits.
    heard: VecDeque<(u64, Speeds)>,
    /// How many steps may be planned ahead.
    n_ahead: u64,
    /// Steps that were delivered.
    n_delivered: u64,
    is_before_reading: bool,
    cells: Cells,
    multiple_of: u32,
}

impl Shares {
    /// Deals steps of samples of these cells, of which so many may be planned ahead; each before its samples are read, where
    /// those are known by then.
    pub(super) fn new(cells: Cells, multiple_of: u32, n_ahead: usize, is_before_reading: bool) -> Self {
        Self {
            limits: None,
            heard: VecDeque::new(),
            n_ahead: n_ahead as u64,
            n_delivered: 0,
            is_before_reading,
            cells,
            multiple_of,
        }
    }

    /// Goes by these limits from the next step on; returns whether what was planned ahead is to be dealt anew.
    pub(super) fn follow(&mut self, limits: &Arc<Limits>, speeds: &Speeds) -> bool {
        let is_known = |it: &(u64, Speeds)| it.0 <= self.n_delivered.saturating_sub(self.n_ahead);
        while self.heard.get(1).is_some_and(is_known) {
            self.heard.pop_front();
        }
        let is_off = self.heard.front().is_some_and(|(_, before)| is_off(before, speeds));
        if is_off {
            self.heard.clear();
        }
        self.heard.push_back((self.n_delivered, speeds.clone()));
        let before = self.limits.replace(Arc::clone(limits));
        self.is_before_reading && (is_off || before.as_ref() != Some(limits))
    }

    /// Counts a step that was delivered.
    pub(super) fn count(&mut self) {
        self.n_delivered += 1;
    }

    /// Deals the step after so many that wait, before it is read; none where it is dealt later or not at all, as where nobody
    /// takes it by now.
    pub(super) fn planned(&self, draw: &Draw, n_waiting: usize) -> Option<Dealt> {
        if !self.is_before_reading {
            return None;
        }
        let known = (self.n_delivered + n_waiting as u64).saturating_sub(self.n_ahead);
        let (_, speeds) = self.heard.iter().rfind(|it| it.0 <= known).or(self.heard.front())?;
        self.deal(self.limits.as_ref()?, speeds, draw).ok()
    }

    /// Deals a step that is delivered.
    pub(super) fn delivered(&self, draw: &Draw) -> Result<Dealt, DealError> {
        match self.heard.back().zip(self.limits.as_ref()) {
            Some(((_, speeds), limits)) => self.deal(limits, speeds, draw),
            None => Ok(Dealt::to_one(draw)),
        }
    }

    /// Returns which of the ranks this one is.
    pub(super) fn rank(&self) -> usize {
        self.limits.as_ref().map_or(0, |it| it.rank)
    }

    fn deal(&self, limits: &Limits, speeds: &Speeds, draw: &Draw) -> Result<Dealt, DealError> {
        let to_deal = |part: &Part| {
            let (limits, multiple_of) = limits.of(part.extent, &self.cells, self.multiple_of);
            let (n_samples, length) = (whole(part.n_rows() as u64), whole(part.extent.positions()));
            BatchToDeal { n_samples, length, multiple_of, limits }
        };
        let batches: Vec<_> = draw.parts.iter().map(to_deal).collect();
        Ok(Dealt { counts: deal_batches(&speeds.weights(), speeds.overhead(), &batches)? })
    }
}

/// Whether shares by the former speeds are much larger or smaller than by the latter.
fn is_off(before: &Speeds, now: &Speeds) -> bool {
    let shares = |speeds: &Speeds| {
        let weights = speeds.weights();
        let all: f64 = weights.iter().sum();
        weights.into_iter().map(move |it| it / all)
    };
    shares(before).zip(shares(now)).any(|(before, now)| MUCH * now < (before - now).abs())
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::time::Duration;

    use plimsoll_sampler::Worked;

    use super::*;

    #[test]
    fn a_multiple_is_dealt_where_every_rank_that_takes_any_holds_it() {
        assert_eq!([held_multiple(4, &[9, 4]), held_multiple(4, &[9, 0]), held_multiple(4, &[9, 3])], [4, 4, 1]);
    }

    fn speeds(positions: [u64; 2]) -> Speeds {
        let mut speeds = Speeds::unknown(2);
        speeds.hear(&positions.map(|positions| Worked { positions, took: Duration::from_secs(1) }));
        speeds
    }

    fn of_two(rank: usize) -> Arc<Limits> {
        Arc::new(Limits { rank, of_ranks: vec![vec![100]; 2] })
    }

    /// Deals 20 steps of 100 samples, each planned so many steps ahead of one that is about to be delivered; returns who runs what,
    /// and which steps were dealt anew.
    fn deal(speeds_before: &dyn Fn(u64) -> Speeds, ahead: &dyn Fn(u64) -> u64) -> (Vec<Dealt>, Vec<u64>) {
        let draw = Draw::of_extent(0, (0..100).collect(), 8);
        let mut shares = Shares::new(Cells::default(), 1, 3, true);
        let (mut planned, mut anew) = (Vec::new(), Vec::new());
        for step in 0..20 {
            if shares.follow(&of_two(0), &speeds_before(step)) {
                planned.truncate(usize::try_from(step).unwrap());
                anew.push(step);
            }
            while planned.len() as u64 <= step + ahead(step) {
                let n_waiting = planned.len() - usize::try_from(step).unwrap();
                planned.push(shares.planned(&draw, n_waiting).unwrap());
            }
            shares.count();
            assert!(shares.heard.len() <= 4, "{}", shares.heard.len());
        }
        planned.truncate(20);
        (planned, anew)
    }

    /// However far ahead a rank plans, and however late it does.
    #[test]
    fn ranks_deal_a_step_by_the_same_speeds() {
        for speeds_before in
            [&|step| speeds([1000 + 40 * (step % 5), 1000]), &|step| speeds([1000 * (1 + step % 7), 1000])]
                as [&dyn Fn(u64) -> Speeds; 2]
        {
            let dealt = deal(speeds_before, &|_| 2);
            assert!(dealt.0.iter().any(|it| *it != dealt.0[0]));
            assert_eq!(dealt, deal(speeds_before, &|step| step % 3));
            assert_eq!(dealt, deal(speeds_before, &|_| 0));
        }
    }

    #[test]
    fn what_is_little_is_followed_when_it_is_known_and_what_is_much_at_once() {
        let first = |dealt: &[Dealt]| dealt.iter().map(|it| it.counts[0][0]).collect::<Vec<_>>();
        let (dealt, anew) = deal(&|step| speeds([if step < 6 { 1000 } else { 1100 }, 1000]), &|_| 2);
        assert_eq!((first(&dealt)[8], first(&dealt)[9], anew), (50, 52, vec![0]), "three steps later");
        let (dealt, anew) = deal(&|step| speeds([if step < 6 { 1000 } else { 3000 }, 1000]), &|_| 2);
        assert_eq!((first(&dealt)[5], first(&dealt)[6], anew), (50, 75, vec![0, 6]));
    }

    #[test]
    fn what_is_not_known_before_it_is_read_is_dealt_afterwards() {
        let (draw, limits) = (Draw::of_extent(0, (0..12).collect(), 8), of_two(1));
        let mut shares = Shares::new(Cells::default(), 1, 2, false);
        assert_eq!(shares.delivered(&draw).unwrap().counts, [[12]], "one rank runs all");
        assert!(!shares.follow(&limits, &Speeds::unknown(2)));
        assert_eq!((shares.planned(&draw, 0), shares.rank()), (None, 1));
        let dealt = shares.delivered(&draw).unwrap();
        assert!(dealt.rows_of(0).eq(iter::once(0..6)) && dealt.rows_of(1).eq(iter::once(6..12)), "{dealt:?}");
    }
}
