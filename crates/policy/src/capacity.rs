//! Which capacity a run goes by, when what is read moves all the time.

use plimsoll_types::Bytes;

/// A rise by this share of the capacity is followed at once.
const LARGE_RISE: f64 = 1.0 / 16.0;

/// A change by less than this share is no news, however long it lasts.
const LEAST_CHANGE: f64 = 1.0 / 200.0;

/// Steps that a small rise must last.
const LASTS: u64 = 50;

/// Follows the capacity that is read before each step.
///
/// A fall counts at once, and so does a rise by a sixteenth: a co-tenant has come or gone.
/// Of smaller rises only what has lasted counts: the least that was read in fifty steps, when it is at least half a
/// percent more; what other processes leave trembles, and each change that is news is a line in the log and a judgement of
/// all rungs.
/// A slow leak falls at almost every reading: it is followed at once as well, and is news when it has come to half a
/// percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityWatch {
    /// The least that was read since `since`.
    least: Bytes,
    since: u64,
    /// The last capacity that was news, or the one of the start.
    told: Option<Bytes>,
}

/// Another capacity to go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The capacity.
    pub capacity: Bytes,
    /// Whether it is worth a line in the log: half a percent away from the last one that was.
    pub is_news: bool,
}

impl Default for CapacityWatch {
    fn default() -> Self {
        Self::since(0)
    }
}

impl CapacityWatch {
    /// Begins before a step: nothing that is read has lasted yet.
    pub const fn since(step: u64) -> Self {
        Self { least: Bytes::MAX, since: step, told: None }
    }

    /// Hears what is read before a step, and returns the capacity to go by if it is another than the one that the run
    /// goes by so far.
    pub fn read(&mut self, step: u64, capacity: Bytes, so_far: Bytes) -> Option<Followed> {
        let told = *self.told.get_or_insert(so_far);
        let capacity = self.followed(step, capacity, so_far)?;
        let is_news = LEAST_CHANGE * told.as_f64() <= (capacity.as_f64() - told.as_f64()).abs();
        if is_news {
            self.told = Some(capacity);
        }
        Some(Followed { capacity, is_news })
    }

    fn followed(&mut self, step: u64, capacity: Bytes, so_far: Bytes) -> Option<Bytes> {
        let rises_to = |capacity: Bytes, by: f64| so_far.as_f64() * (1.0 + by) <= capacity.as_f64();
        if capacity < so_far || rises_to(capacity, LARGE_RISE) {
            (self.least, self.since) = (Bytes::MAX, step);
            return Some(capacity);
        }
        self.least = self.least.min(capacity);
        if step.saturating_sub(self.since) < LASTS {
            return None;
        }
        self.since = step;
        let lasted = std::mem::replace(&mut self.least, Bytes::MAX);
        Some(lasted).filter(|it| rises_to(*it, LEAST_CHANGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads from a capacity on, and returns what is followed, and what of that is news.
    fn read(start: u64, readings: impl IntoIterator<Item = (u64, u64)>) -> [Vec<(u64, u64)>; 2] {
        let (mut watch, mut capacity, mut news) = (CapacityWatch::default(), Bytes(start), Vec::new());
        let read = |(step, bytes)| {
            let followed = watch.read(step, Bytes(bytes), capacity)?;
            capacity = followed.capacity;
            news.extend(followed.is_news.then_some((step, capacity.0)));
            Some((step, capacity.0))
        };
        [readings.into_iter().filter_map(read).collect(), news]
    }

    fn news(start: u64, readings: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        let [_, news] = read(start, readings);
        news
    }

    #[test]
    fn a_fall_and_a_large_rise_are_followed_at_once() {
        let readings = [(1, 1600), (2, 1592), (3, 1584), (4, 1682), (5, 1683), (6, 800)];
        let expected = vec![(2, 1592), (3, 1584), (5, 1683), (6, 800)];
        assert_eq!(read(1600, readings), [expected.clone(), expected]);
    }

    #[test]
    fn a_slow_leak_is_followed_at_once_and_is_news_when_it_has_come_to_half_a_percent() {
        let leak = || (1..=1000).map(|step| (step, 1_000_000 - 100 * step));
        let [followed, news] = read(1_000_000, leak());
        assert_eq!(followed, leak().collect::<Vec<_>>());
        assert_eq!((news.len(), news[0], news[1]), (20, (50, 995_000), (100, 990_000)));
        // What comes back within half a percent of what was told is none.
        let [followed, news] = read(1000, [(1, 996), (51, 1001), (101, 1001), (151, 1007)]);
        assert_eq!((followed, news), (vec![(1, 996), (51, 1001), (151, 1007)], vec![(151, 1007)]));
    }

    #[test]
    fn of_a_small_rise_counts_what_has_lasted() {
        let readings = [(1, 1050), (30, 1020), (49, 1050), (50, 1050), (99, 1050), (100, 1050)];
        assert_eq!(news(1000, readings), [(50, 1020), (100, 1050)]);
        assert_eq!(news(1000, [(50, 1004), (100, 1004), (1000, 1004)]), [], "no news");
    }

    #[test]
    fn the_first_reading_of_a_run_that_goes_on_has_not_lasted() {
        let mut watch = CapacityWatch::since(100);
        let mut read = |step, bytes| watch.read(step, Bytes(bytes), Bytes(1000)).map(|it| it.capacity);
        assert_eq!([read(100, 1050), read(149, 1020), read(150, 1050)], [None, None, Some(Bytes(1020))]);
    }

    #[test]
    fn trembling_of_one_percent_is_followed_to_its_least() {
        let news = news(10_100, (0..10_000).map(|step| (step, 10_000 + step * 37 % 101)));
        assert!(news.len() < 10 && news.is_sorted_by(|a, b| a.1 > b.1), "{news:?}");
        assert_eq!(news.last().map(|it| it.1), Some(10_000));
    }
}
