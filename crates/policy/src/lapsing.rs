//! A count that is forgotten.

use serde::{Deserialize, Serialize};

/// Steps without another occurrence that take one off a count.
const CLEAN_STEPS: u64 = 1000;

/// How often something has happened lately: one less for each 1000 steps without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lapsing {
    count: u32,
    since: u64,
}

impl Lapsing {
    /// Returns what is left of the count after `now` steps.
    pub(crate) fn at(self, now: u64) -> u32 {
        let lapsed = now.saturating_sub(self.since) / CLEAN_STEPS;
        self.count.saturating_sub(u32::try_from(lapsed).unwrap_or(u32::MAX))
    }

    /// Counts one more.
    pub(crate) fn add(&mut self, now: u64) {
        *self = Self { count: self.at(now).saturating_add(1), since: now };
    }

    /// Takes one back that should not have counted.
    pub(crate) fn take_back(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_clean_steps_take_one_off() {
        let mut count = Lapsing::default();
        assert_eq!(count.at(u64::MAX), 0);
        count.add(10);
        count.add(20);
        assert_eq!((count.at(20), count.at(1019), count.at(1020), count.at(2020)), (2, 2, 1, 0));
        count.add(1500);
        assert_eq!((count.at(2499), count.at(2500)), (2, 1), "another occurrence begins the thousand anew");
        count.take_back();
        assert_eq!(count.at(0), 1);
    }
}
