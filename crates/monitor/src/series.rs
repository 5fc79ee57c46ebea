//! A curve of a bounded number of points, which loses no extreme.

/// A value at a step.
pub(crate) type Point = (f64, f64);

/// Values that are kept as they were; a longer curve keeps as many neighbourhoods at most.
const MOST: usize = 4096;

/// One number over the steps of a run, however many.
///
/// A curve of up to 4096 values has all of them. Of a longer one the first 4096 stay, for whoever enlarges the start, and all
/// are grouped: neighbours in groups of equal size, which doubles whenever there are 4096. A group has its lowest value, its
/// highest and their mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    first: Vec<Point>,
    groups: Vec<Group>,
    per_group: u64,
}

/// What is kept of neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Group {
    low: Point,
    high: Point,
    sum: Point,
    n: u64,
}

impl Series {
    /// Adds the value of a later step; what is not finite is no value.
    pub(crate) fn push(&mut self, step: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        let point = (step as f64, value);
        if self.first.len() < MOST {
            return self.first.push(point);
        }
        if self.groups.is_empty() {
            (self.groups, self.per_group) = (self.first.iter().map(|it| Group::of(*it)).collect(), 1);
        }
        match self.groups.last_mut().filter(|it| it.n < self.per_group) {
            Some(group) => *group = group.and(Group::of(point)),
            None => self.begin_group(point),
        }
    }

    fn begin_group(&mut self, point: Point) {
        if self.groups.len() == MOST {
            for at in 0..MOST / 2 {
                self.groups[at] = self.groups[2 * at].and(self.groups[2 * at + 1]);
            }
            self.groups.truncate(MOST / 2);
            self.per_group *= 2;
        }
        self.groups.push(Group::of(point));
    }

    /// Returns how many values a group stands for: one where all are kept.
    pub(crate) fn values_per_group(&self) -> u64 {
        self.per_group.max(1)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Returns the values in order, of each group the lowest and the highest.
    pub(crate) fn points(&self) -> Vec<Point> {
        if self.groups.is_empty() { self.first.clone() } else { self.groups.iter().flat_map(Group::ends).collect() }
    }

    /// Returns the values up to a step; all of them where they are among the first.
    pub(crate) fn until(&self, end: f64) -> Vec<Point> {
        let is_whole = self.groups.is_empty() || self.first.last().is_some_and(|it| end <= it.0);
        let mut points = if is_whole { self.first.clone() } else { self.points() };
        points.retain(|it| it.0 <= end);
        points
    }

    /// Returns the mean of each group.
    pub(crate) fn means(&self) -> Vec<Point> {
        let mean = |it: &Group| (it.sum.0 / it.n as f64, it.sum.1 / it.n as f64);
        if self.groups.is_empty() { self.first.clone() } else { self.groups.iter().map(mean).collect() }
    }

    /// Returns the lowest value and the highest.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let points = || self.first.iter().copied().chain(self.groups.iter().flat_map(Group::ends)).map(|it| it.1);
        Some((points().reduce(f64::min)?, points().reduce(f64::max)?))
    }

    /// Returns the value that all steps have.
    pub(crate) fn constant(&self) -> Option<f64> {
        self.range().filter(|(low, high)| low >= high).map(|it| it.0)
    }
}

impl Group {
    const fn of(point: Point) -> Self {
        Self { low: point, high: point, sum: point, n: 1 }
    }

    /// Joins it with the next one.
    fn and(self, next: Self) -> Self {
        Self {
            low: if next.low.1 < self.low.1 { next.low } else { self.low },
            high: if self.high.1 <= next.high.1 { next.high } else { self.high },
            sum: (self.sum.0 + next.sum.0, self.sum.1 + next.sum.1),
            n: self.n + next.n,
        }
    }

    /// Its extremes in the order of their steps, or the one that is both.
    fn ends(&self) -> impl Iterator<Item = Point> + use<> {
        let (low, high) = (self.low, self.high);
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        let is_one = first.0 >= second.0 || low.1 >= high.1;
        std::iter::once(first).chain((!is_one).then_some(second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(n: u64, value: impl Fn(u64) -> f64) -> Series {
        let mut series = Series::default();
        (0..n).for_each(|it| series.push(it, value(it)));
        series
    }

    #[test]
    fn a_short_curve_is_kept_whole() {
        let short = series(4096, |it| it as f64);
        assert_eq!(short.points(), (0..4096).map(|it| (f64::from(it), f64::from(it))).collect::<Vec<_>>());
        assert_eq!((short.means(), short.values_per_group()), (short.points(), 1));
    }

    #[test]
    fn a_long_curve_has_few_points_and_every_extreme() {
        for n in [4097, 10_000, 1_000_000] {
            let spiked = series(n, |it| {
                if it == n / 3 {
                    9.0
                } else if it == n / 2 {
                    -9.0
                } else {
                    1.0
                }
            });
            let points = spiked.points();
            assert!(points.len() <= 2 * MOST, "{n}: {}", points.len());
            assert!(points.contains(&((n / 3) as f64, 9.0)) && points.contains(&((n / 2) as f64, -9.0)), "{n}");
            assert_eq!(spiked.range(), Some((-9.0, 9.0)));
            assert!(points.is_sorted_by(|a, b| a.0 < b.0));
            let sum: f64 = spiked.groups.iter().map(|it| it.sum.1).sum();
            assert!((sum - (n - 2) as f64).abs() < 1e-6, "{n}: {sum}");
            assert_eq!(spiked.groups.iter().map(|it| it.n).sum::<u64>(), n);
            assert!(n / MOST as u64 <= spiked.values_per_group() && spiked.values_per_group() <= n.div_ceil(2048));
        }
    }

    #[test]
    fn the_start_of_a_long_curve_is_kept_whole() {
        let long = series(50_000, |it| it as f64);
        assert_eq!(long.until(300.0).len(), 301);
        assert!(long.until(40_000.0).len() < 2 * MOST && long.until(40_000.0).iter().all(|it| it.0 <= 40_000.0));
    }

    #[test]
    fn a_curve_that_never_changes_has_one_value() {
        assert_eq!(series(9000, |_| 4.0).constant(), Some(4.0));
        assert_eq!(series(9000, |it| f64::from(u8::from(it == 8888))).constant(), None);
        assert_eq!(series(9, |_| f64::NAN), Series::default());
    }
}
