//! Rungs, or batch sizes, that failed, closed for a time that doubles.

use serde::{Deserialize, Serialize};

/// The lowest closed rung; all above it are closed too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ceiling {
    rung: usize,
    opens_at: u64,
    closings: u32,
}

impl Ceiling {
    /// Returns the lowest rung that is closed after `now` steps.
    pub(crate) fn at(&self, now: u64) -> Option<usize> {
        (now < self.opens_at).then_some(self.rung)
    }

    /// Closes `rung` for `first_time` steps, doubled once for each closing before this one.
    pub(crate) fn close(&mut self, rung: usize, now: u64, first_time: u64) {
        self.rung = self.at(now).map_or(rung, |closed| closed.min(rung));
        let doubled = 1u64.checked_shl(self.closings).unwrap_or(u64::MAX);
        self.opens_at = now.saturating_add(first_time.saturating_mul(doubled));
        self.closings = self.closings.saturating_add(1);
    }

    /// Closes what is below too, for as long as the rest, or for `first_time` steps when nothing is closed.
    pub(crate) fn lower(&mut self, rung: usize, now: u64, first_time: u64) {
        match self.at(now) {
            Some(closed) => self.rung = closed.min(rung),
            None => self.close(rung, now, first_time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_closing_lasts_twice_as_long_as_the_one_before() {
        let mut ceiling = Ceiling::default();
        assert_eq!(ceiling.at(0), None);
        ceiling.close(7, 10, 200);
        assert_eq!((ceiling.at(209), ceiling.at(210)), (Some(7), None));
        ceiling.close(9, 210, 200);
        assert_eq!((ceiling.at(609), ceiling.at(610)), (Some(9), None));
        for _ in 0..100 {
            ceiling.close(9, 610, 200);
        }
        assert_eq!(ceiling.at(u64::MAX - 1), Some(9), "the time saturates");
    }

    #[test]
    fn lowering_a_ceiling_does_not_prolong_it() {
        let mut ceiling = Ceiling::default();
        ceiling.lower(7, 0, 200);
        ceiling.lower(5, 100, 200);
        ceiling.lower(6, 150, 200);
        assert_eq!((ceiling.at(199), ceiling.at(200)), (Some(5), None));
    }

    #[test]
    fn a_closed_rung_stays_closed_when_a_higher_one_fails() {
        let mut ceiling = Ceiling::default();
        ceiling.close(5, 0, 200);
        ceiling.close(9, 1, 200);
        assert_eq!(ceiling.at(400), Some(5));
    }
}
