//! Samples that alone do not fit.

use plimsoll_types::{Bytes, Extent};
use serde::{Deserialize, Serialize};

use crate::source::{Source, known_extents};

/// What has to come on top of what there was, as one part of it in so many, before samples are tried again: what others
/// take and return moves the budget by less all the time.
const MORE: u64 = 10;

/// Names of samples that a warning has.
const SHOWN_NAMES: usize = 3;

/// Which samples are left out because one of them alone does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfit {
    /// All whose own length is padded to this edge or a longer one.
    edge: u32,
    /// What there was for it; with much more they are tried again.
    budget: Bytes,
}

impl Unfit {
    /// Says that nothing of this edge fits into a budget.
    pub(super) fn of(edge: u32, budget: Bytes) -> Self {
        Self { edge, budget }
    }

    /// Says that nothing longer than this edge fits into a budget.
    pub(super) fn beyond(longest: u32, budget: Bytes) -> Self {
        Self { edge: longest.saturating_add(1), budget }
    }

    /// Returns the longest edge that is not left out; `None` where this budget is worth another try.
    pub(super) fn longest(&self, budget: Bytes) -> Option<u32> {
        self.holds(budget).then(|| self.edge.saturating_sub(1))
    }

    fn holds(&self, budget: Bytes) -> bool {
        budget.saturating_sub(self.budget) <= Bytes(self.budget.0 / MORE)
    }

    /// Returns what holds of what a checkpoint says and of what is known now.
    pub(super) fn stricter(then: Option<Self>, now: Option<Self>) -> Option<Self> {
        match (then, now) {
            (Some(then), Some(now)) if then.edge < now.edge && then.holds(now.budget) => Some(then),
            (then, now) => now.or(then),
        }
    }
}

/// Says which samples of a source are longer than this, unless none is; what is longer in a stream that nobody has looked at
/// shows when it comes.
pub(super) fn longer<S: Source>(source: &S, longest: u32) -> Option<String> {
    let is_longer = |extent: Option<Extent>| Some(longest) < extent.map(Extent::edge);
    let ids: Vec<_> = (0..).zip(known_extents(source)).filter(|(_, it)| is_longer(*it)).map(|(id, _)| id).collect();
    let unnamed = || source.lengths().index().is_none().then(|| format!("samples longer than {longest}"));
    named(&ids, longest, |id| source.describe(id)).or_else(unnamed)
}

/// Says how many samples these are, and names some; `None` where there is none.
fn named(ids: &[u64], longest: u32, name: impl Fn(u64) -> String) -> Option<String> {
    let names: Vec<_> = ids.iter().take(SHOWN_NAMES).map(|id| name(*id)).collect();
    let more = match ids.len().saturating_sub(SHOWN_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let samples = if ids.len() == 1 { "sample" } else { "samples" };
    (!ids.is_empty()).then(|| format!("{} {samples} longer than {longest}, {}{more}", ids.len(), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_samples_some_are_named_and_all_counted() {
        let say = |n| named(&(0..n).collect::<Vec<_>>(), 24, |id| format!("{id}.wav"));
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
}
