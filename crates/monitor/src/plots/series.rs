//! Points of a line: smoothed, thinned, or drawn as stairs.

use super::canvas::Point;

/// The most points of a line in a picture; more would make files large and look the same at 1200 pixels.
pub(crate) const MAX_POINTS: usize = 1500;
/// Smoothing averages over this part of the run ...
const SMOOTHING_SHARE: f64 = 0.03;
/// ... and at least over so many steps on either side.
const SMOOTHING_STEPS: usize = 2;

/// Drops points until at most [`MAX_POINTS`] are left; each neighbourhood keeps its lowest and its highest.
pub(super) fn thin(points: Vec<Point>) -> Vec<Point> {
    thin_to(points, MAX_POINTS)
}

/// Drops points until at most `most` are left, likewise.
pub(super) fn thin_to(points: Vec<Point>, most: usize) -> Vec<Point> {
    if points.len() <= most {
        return points;
    }
    let size = points.len().div_ceil(most / 2);
    points.chunks(size).flat_map(extremes).collect()
}

fn extremes(chunk: &[Point]) -> Vec<Point> {
    let by_height = |a: &&Point, b: &&Point| a.1.total_cmp(&b.1);
    let mut ends: Vec<Point> =
        chunk.iter().min_by(by_height).into_iter().chain(chunk.iter().max_by(by_height)).copied().collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    ends.dedup();
    ends
}

/// Replaces each point by the straight line through its neighbours on both sides: a moving average that neither lags
/// nor bends at the ends.
pub(super) fn smooth(points: &[Point]) -> Vec<Point> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small part of a length")]
    let reach = ((SMOOTHING_SHARE / 2.0 * points.len() as f64) as usize).max(SMOOTHING_STEPS);
    // Sums of y and of index times y up to each point, so that a long run costs no more than its length.
    let mut sums = vec![(0.0, 0.0)];
    for (index, (_, y)) in points.iter().enumerate() {
        let (sum, moment) = sums[index];
        sums.push((sum + y, moment + index as f64 * y));
    }
    let fit = |index: usize| {
        let (from, to) = (index.saturating_sub(reach), (index + reach + 1).min(points.len()));
        let (n, middle) = ((to - from) as f64, (from + to - 1) as f64 / 2.0);
        let (sum, moment) = (sums[to].0 - sums[from].0, sums[to].1 - sums[from].1);
        let slope = if n < 2.0 { 0.0 } else { 12.0 * (moment - middle * sum) / (n * (n * n - 1.0)) };
        sum / n + slope * (index as f64 - middle)
    };
    // A line through a jump can leave the range of the points, and with it a logarithmic axis.
    let (low, high) = points.iter().fold((f64::MAX, f64::MIN), |(low, high), (_, y)| (low.min(*y), high.max(*y)));
    points.iter().enumerate().map(|(index, (x, _))| (*x, fit(index).max(low).min(high))).collect()
}

/// Turns values that hold until the next one into a line with corners, up to `end`.
pub(super) fn stairs(points: impl IntoIterator<Item = Point>, end: f64) -> Vec<Point> {
    let mut corners: Vec<Point> = Vec::new();
    for (x, y) in points {
        let last = corners.last().map(|it| it.1);
        if last != Some(y) {
            corners.extend(last.map(|last| (x, last)));
            corners.push((x, y));
        }
    }
    corners.extend(corners.last().map(|(_, y)| (end, *y)));
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_highest_and_the_lowest_point() {
        let points: Vec<Point> = (0..10_000u32).map(|it| (f64::from(it), f64::from(it * 7919 % 1009))).collect();
        let thinned = thin(points.clone());
        let range = |points: &[Point]| {
            points.iter().fold((f64::MAX, f64::MIN), |(low, high), (_, y)| (low.min(*y), high.max(*y)))
        };
        assert!(MAX_POINTS / 2 < thinned.len() && thinned.len() <= MAX_POINTS, "{}", thinned.len());
        assert_eq!(range(&thinned), range(&points));
        assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn smoothing_leaves_a_straight_line_alone() {
        let straight: Vec<Point> = (0..50).map(|it| (f64::from(it), 3.0 - f64::from(it))).collect();
        assert!(smooth(&straight).iter().zip(&straight).all(|(smoothed, it)| (smoothed.1 - it.1).abs() < 1e-9));
    }

    #[test]
    fn smoothing_a_jump_stays_inside_the_range() {
        let jump = [(0.0, 9.0), (1.0, 0.1), (2.0, 0.1), (3.0, 0.1), (4.0, 0.1), (5.0, 8.0)];
        assert!(smooth(&jump).iter().all(|it| 0.1 <= it.1 && it.1 <= 9.0), "{:?}", smooth(&jump));
        assert_eq!(smooth(&[(0.0, 9.0)]), [(0.0, 9.0)]);
        assert_eq!(smooth(&[]), []);
    }

    #[test]
    fn stairs_turn_at_changes_only() {
        let corners = stairs([(0.0, 2.0), (1.0, 2.0), (2.0, 4.0)], 3.0);
        assert_eq!(corners, [(0.0, 2.0), (2.0, 2.0), (2.0, 4.0), (3.0, 4.0)]);
    }
}
