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
    /// The least that was read since `since`.
    least: Bytes,
    since: u64,
}

impl Default for CapacityWatch {
    fn default() -> Self {
        Self { least: Bytes::MAX, since: 0 }
    }
}

impl CapacityWatch {
    /// Hears what is read before a step, and returns the capacity to go by if it is another than the one that the run
    /// goes by so far.
    pub fn read(&mut self, step: u64, capacity: Bytes, so_far: Bytes) -> Option<Bytes> {
        let rises_to = |capacity: Bytes, by: f64| so_far.as_f64() * (1.0 + by) <= capacity.as_f64();
        if capacity < so_far || rises_to(capacity, LARGE_RISE) {
            *self = Self { since: step, ..Self::default() };
            return Some(capacity);
        }
        self.least = self.least.min(capacity);
        if step.saturating_sub(self.since) < LASTS {
            return None;
        }
        let lasted = std::mem::replace(self, Self { since: step, ..Self::default() }).least;
        Some(lasted).filter(|it| rises_to(*it, LEAST_RISE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads from a capacity on, and returns what is news.
    fn news(start: u64, readings: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        let (mut watch, mut capacity) = (CapacityWatch::default(), Bytes(start));
        let read = |(step, bytes)| {
            capacity = watch.read(step, Bytes(bytes), capacity)?;
            Some((step, capacity.0))
        };
        readings.into_iter().filter_map(read).collect()
    }

    #[test]
    fn a_fall_and_a_large_rise_are_followed_at_once() {
        let readings = [(1, 1600), (2, 1599), (3, 1598), (4, 1697), (5, 1698), (6, 800)];
        assert_eq!(news(1600, readings), [(2, 1599), (3, 1598), (5, 1698), (6, 800)]);
    }

    #[test]
    fn of_a_small_rise_counts_what_has_lasted() {
        let readings = [(1, 1050), (30, 1020), (49, 1050), (50, 1050), (99, 1050), (100, 1050)];
        assert_eq!(news(1000, readings), [(50, 1020), (100, 1050)]);
        assert_eq!(news(1000, [(50, 1004), (100, 1004), (1000, 1004)]), [], "no news");
    }

    #[test]
    fn trembling_of_one_percent_is_followed_to_its_least() {
        let news = news(10_100, (0..10_000).map(|step| (step, 10_000 + step * 37 % 101)));
        assert!(news.len() < 10 && news.is_sorted_by(|a, b| a.1 > b.1), "{news:?}");
        assert_eq!(news.last().map(|it| it.1), Some(10_000));
    }
}
