//! Samples that alone do not fit.

use plimsoll_types::{Bytes, Extent, edge_or_edges};
use serde::{Deserialize, Serialize};

use crate::source::{Source, known_extents};
use crate::too_large::TooLarge;

/// What has to come on top of what there was, as one part of it in so many, before samples are tried again: what others
/// take and return moves the budget by less all the time.
const MORE: u64 = 10;

/// Names of samples that a warning has.
const SHOWN_NAMES: usize = 3;

/// Which samples are left out because one of them alone does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfit {
    /// All that are padded to this, or to more along each axis.
    #[serde(with = "edge_or_edges")]
    edge: Extent,
    /// And to one of these, where there are several axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Extent>,
    /// What there was for it; with much more they are tried again.
    budget: Bytes,
}

impl Unfit {
    /// Says that nothing of this extent fits into a budget.
    pub(super) fn of(edge: Extent, budget: Bytes) -> Self {
        Self { edge, others: Vec::new(), budget }
    }

    /// Says that nothing of these extents fits into a budget; `None` without any.
    pub(super) fn from(extents: &[Extent], budget: Bytes) -> Option<Self> {
        let (edge, others) = extents.split_first()?;
        Some(Self { edge: *edge, others: others.to_vec(), budget })
    }

    /// Says that nothing longer than this edge fits into a budget.
    pub(super) fn beyond(longest: u32, budget: Bytes) -> Self {
        Self::of(longest.saturating_add(1).into(), budget)
    }

    /// Returns from which extents on samples are left out; none where this budget is worth another try.
    pub(super) fn extents(&self, budget: Bytes) -> Vec<Extent> {
        if self.holds(budget) { self.all().collect() } else { Vec::new() }
    }

    /// Returns the longest edge that is not left out; `None` where this budget is worth another try.
    pub(super) fn longest(&self, budget: Bytes) -> Option<u32> {
        self.holds(budget).then(|| self.edge.edge().saturating_sub(1))
    }

    fn all(&self) -> impl Iterator<Item = Extent> {
        [self.edge].into_iter().chain(self.others.iter().copied())
    }

    fn holds(&self, budget: Bytes) -> bool {
        budget.saturating_sub(self.budget) <= Bytes(self.budget.0 / MORE)
    }

    /// Returns what holds of what was known and of what is known now.
    pub(super) fn stricter(then: Option<Self>, now: Option<Self>) -> Option<Self> {
        match (then, now) {
            (Some(then), Some(now)) if then.holds(now.budget) => {
                let mut least = Extent::innermost(then.all().chain(now.all()));
                let is_of_now = least.iter().all(|it| now.all().any(|own| own == *it));
                let budget = if is_of_now { now.budget } else { then.budget };
                Some(Self { edge: least.remove(0), others: least, budget })
            }
            (then, now) => now.or(then),
        }
    }
}

/// Says which samples of a source are too large, unless none is; what is so in a stream that nobody has looked at shows when it
/// comes.
pub(super) fn named_of<S: Source>(source: &S, too_large: &TooLarge) -> Option<String> {
    let is_one = |extent: Option<Extent>| extent.is_some_and(|it| too_large.has(it));
    let ids: Vec<_> = (0..).zip(known_extents(source)).filter(|(_, it)| is_one(*it)).map(|(id, _)| id).collect();
    let unnamed = || source.lengths().index().is_none().then(|| format!("samples {too_large}"));
    named(&ids, too_large, |id| source.describe(id)).or_else(unnamed)
}

/// Says how many samples these are, and names some; `None` where there is none.
fn named(ids: &[u64], too_large: &TooLarge, name: impl Fn(u64) -> String) -> Option<String> {
    let names: Vec<_> = ids.iter().take(SHOWN_NAMES).map(|id| name(*id)).collect();
    let more = match ids.len().saturating_sub(SHOWN_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let samples = if ids.len() == 1 { "sample" } else { "samples" };
    (!ids.is_empty()).then(|| format!("{} {samples} {too_large}, {}{more}", ids.len(), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_samples_some_are_named_and_all_counted() {
        let too_large = TooLarge::from(vec![25.into()], &vec![24, 40].into());
        let say = |n| named(&(0..n).collect::<Vec<_>>(), &too_large, |id| format!("{id}.wav"));
        assert_eq!(say(0), None);
        assert_eq!(say(1).unwrap(), "1 sample longer than 24, 0.wav");
        assert_eq!(say(3).unwrap(), "3 samples longer than 24, 0.wav, 1.wav, 2.wav");
        assert_eq!(say(7).unwrap(), "7 samples longer than 24, 0.wav, 1.wav, 2.wav and 4 more");
    }

    #[test]
    fn what_is_left_out_is_tried_again_with_much_more_memory_and_not_with_a_little() {
        let unfit = Unfit::beyond(24, Bytes::mib(100));
        for (budget, longest) in [(50, Some(24)), (100, Some(24)), (110, Some(24)), (111, None)] {
            assert_eq!(unfit.longest(Bytes::mib(budget)), longest, "{budget} MiB");
        }
    }

    #[test]
    fn a_checkpoint_says_more_only_where_it_still_holds() {
        let unfit = |longest, mib| Some(Unfit::beyond(longest, Bytes::mib(mib)));
        for (then, now, expected) in [
            (None, None, None),
            (unfit(8, 100), None, unfit(8, 100)),
            (None, unfit(8, 100), unfit(8, 100)),
            (unfit(8, 100), unfit(16, 100), unfit(8, 100)),
            (unfit(16, 100), unfit(8, 100), unfit(8, 100)),
            // It was of less memory than there is now.
            (unfit(8, 100), unfit(16, 400), unfit(16, 400)),
        ] {
            assert_eq!(Unfit::stricter(then, now), expected);
        }
    }

    #[test]
    fn of_several_axes_each_extent_that_does_not_fit_is_remembered_and_written_as_before_on_one() {
        let extent = |edges: [u32; 2]| Extent::try_new(&edges).unwrap();
        let note = |then, edges| Unfit::stricter(then, Some(Unfit::of(extent(edges), Bytes::mib(100))));
        let both = note(note(None, [4, 8]), [1, 24]);
        let extents = |unfit: &Option<Unfit>, mib| unfit.as_ref().unwrap().extents(Bytes::mib(mib));
        assert_eq!(extents(&both, 100), [extent([1, 24]), extent([4, 8])]);
        assert_eq!(extents(&both, 200), []);
        assert_eq!(extents(&note(both, [4, 2]), 100), [extent([1, 24]), extent([4, 2])]);
        let written = serde_json::to_string(&Unfit::beyond(24, Bytes(9))).unwrap();
        assert_eq!(written, r#"{"edge":25,"budget":9}"#);
    }
}
