//! Which capacity a run goes by, when what is read moves all the time.

use plimsoll_types::Bytes;

/// A rise by this share of the capacity is followed at once.
const LARGE_RISE: f64 = 1.0 / 16.0;

/// A rise by less than this share is no news, however long it lasts.
const LEAST_RISE: f64 = 1.0 / 200.0;

/// Steps that a small rise must last.
const LASTS: u64 = 50;

/// Follows the capacity that is read before each step.
///
/// A fall counts at once, and so does a rise by a sixteenth: a co-tenant has come or gone.
/// Of smaller rises only what has lasted counts: the least that was read in fifty steps, when it is at least half a
/// percent more; what other processes leave trembles, and each change is a line in the log and a judgement of all
/// rungs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityWatch {
    followed: Bytes,
    /// The least that was read since `since`.
    least: Bytes,
    since: u64,
}

impl CapacityWatch {
    /// Starts with what is there at some step.
    pub const fn new(step: u64, capacity: Bytes) -> Self {
        Self { followed: capacity, least: Bytes::MAX, since: step }
    }

    /// Reads the capacity before a step, and returns it, or the part of it that has lasted, if that is news.
    pub fn read(&mut self, step: u64, capacity: Bytes) -> Option<Bytes> {
        if capacity < self.followed || self.rises_to(capacity, LARGE_RISE) {
            *self = Self::new(step, capacity);
            return Some(capacity);
        }
        self.least = self.least.min(capacity);
        if step.saturating_sub(self.since) < LASTS {
            return None;
        }
        let lasted = Some(self.least).filter(|it| self.rises_to(*it, LEAST_RISE));
        *self = Self::new(step, lasted.unwrap_or(self.followed));
        lasted
    }

    fn rises_to(&self, capacity: Bytes, by: f64) -> bool {
        self.followed.as_f64() * (1.0 + by) <= capacity.as_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(watch: &mut CapacityWatch, readings: &[(u64, u64)]) -> Vec<Option<u64>> {
        readings.iter().map(|(step, bytes)| watch.read(*step, Bytes(*bytes)).map(|it| it.0)).collect()
    }

    #[test]
    fn a_fall_and_a_large_rise_are_followed_at_once() {
        let mut watch = CapacityWatch::new(0, Bytes(1600));
        let readings = [(1, 1600), (2, 1599), (3, 1598), (4, 1697), (5, 1698), (6, 800)];
        assert_eq!(read(&mut watch, &readings), [None, Some(1599), Some(1598), None, Some(1698), Some(800)]);
    }

    #[test]
    fn of_a_small_rise_counts_what_has_lasted() {
        let mut watch = CapacityWatch::new(0, Bytes(1000));
        assert_eq!(read(&mut watch, &[(1, 1050), (30, 1020), (49, 1050)]), [None, None, None]);
        assert_eq!(read(&mut watch, &[(50, 1050), (99, 1050), (100, 1050)]), [Some(1020), None, Some(1050)]);
        assert_eq!(read(&mut watch, &[(140, 1052), (150, 1052), (1000, 1055)]), [None, None, None], "no news");
    }

    #[test]
    fn trembling_of_one_percent_is_followed_to_its_least() {
        let mut watch = CapacityWatch::new(0, Bytes(10_100));
        let trembling = |step: u64| Bytes(10_000 + step * 37 % 101);
        let news: Vec<_> = (0..10_000).filter_map(|step| watch.read(step, trembling(step))).collect();
        assert_eq!(news.last(), Some(&Bytes(10_000)));
        assert!(news.len() < 10 && news.is_sorted_by(|a, b| a > b), "{news:?}");
    }
}
