//! What a rehearsal showed.

use plimsoll_types::{Bytes, SMALLEST_PAGE};

use crate::Pools;

/// Growth of the page size that wipes out what it was before.
///
/// A page is opened 1 MiB larger than the allocation that does not fit, rounded up to whole MiB, so that the history can
/// change the outcome only within 2 MiB.
const DECISIVE: Bytes = Bytes::mib(2);

/// What the pools hold after each act of a rehearsal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearsal {
    /// After each act, in order.
    pub after: Vec<Pools>,
    /// Size of the pages that its stream would have opened before, or zero on a fresh one.
    pub(crate) page_before: Bytes,
}

impl Rehearsal {
    /// Whether the pages are those of a fresh process: the rehearsal began with the smallest pages, or its own
    /// allocations have outgrown those that it began with.
    pub fn is_fresh(&self) -> bool {
        let page = self.after.iter().map(Pools::page).max().unwrap_or_default();
        self.page_before <= SMALLEST_PAGE || self.page_before.saturating_add(DECISIVE) <= page
    }

    /// Returns what to add for an upper bound: a page, where the pages may not be those of a fresh process.
    pub fn spare(&self) -> Bytes {
        let page = self.after.iter().map(Pools::page).max().unwrap_or_default();
        if self.is_fresh() { Bytes::ZERO } else { page }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pages;

    #[track_caller]
    fn check(before: u64, after: u64, is_fresh: bool) {
        let pools = Pools { pages: vec![Pages { size: Bytes::mib(after), count: 1 }], ..Pools::default() };
        let rehearsal = Rehearsal { after: vec![pools], page_before: Bytes::mib(before) };
        assert_eq!(rehearsal.is_fresh(), is_fresh, "{before} {after}");
    }

    #[test]
    fn pages_that_were_not_outgrown_are_not_those_of_a_fresh_process() {
        check(0, 2, true);
        check(2, 2, true);
        check(5, 5, false);
        check(5, 6, false);
        check(5, 7, true);
    }
}
