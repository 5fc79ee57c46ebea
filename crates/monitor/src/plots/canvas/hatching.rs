//! The hatching of a rectangle.

use super::Point;

/// Pixels from one line of a hatching to the next, along its lower edge.
const HATCHING: f64 = 8.0;

/// Returns the lines that hatch a rectangle, cut off at its edges.
pub(super) fn hatching([(left, top), (right, bottom)]: [Point; 2]) -> Vec<[Point; 2]> {
    let (width, height) = (right - left, bottom - top);
    let starts = (0..).map(|it| (f64::from(it) + 0.5) * HATCHING - height).take_while(|it| *it < width);
    let line = |start: f64| {
        let (from, to) = ((-start).max(0.0), height.min(width - start));
        [(left + start + from, bottom - from), (left + start + to, bottom - to)]
    };
    starts.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hatching_stays_inside_its_rectangle() {
        let lines = hatching([(10.0, 20.0), (40.0, 32.0)]);
        assert_eq!(lines[0], [(10.0, 24.0), (14.0, 20.0)], "the first line cuts the upper left corner off");
        assert_eq!(lines.len(), 5);
        for (x, y) in lines.into_iter().flatten() {
            assert!((10.0..=40.0).contains(&x) && (20.0..=32.0).contains(&y), "{x} {y}");
        }
    }
}
