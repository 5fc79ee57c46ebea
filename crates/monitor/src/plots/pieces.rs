//! Lines in pieces: dashes, and the hatching of a rectangle.

use super::canvas::Point;

/// Pixels from one line of a hatching to the next, along its lower edge.
const HATCHING: f64 = 8.0;

/// Cuts a line into dashes, which run on around its corners.
pub(super) fn dashes(points: &[Point], (on, off): (f64, f64)) -> Vec<Vec<Point>> {
    let mut pieces = Vec::new();
    let mut piece: Vec<Point> = points.first().copied().into_iter().collect();
    let (mut drawing, mut left) = (true, on);
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        let mut done = 0.0;
        while left < length - done {
            done += left;
            let at = (x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length);
            if drawing {
                piece.push(at);
                pieces.push(std::mem::take(&mut piece));
            }
            drawing = !drawing;
            left = if drawing { on } else { off };
            piece = if drawing { vec![at] } else { Vec::new() };
        }
        left -= length - done;
        if drawing {
            piece.push((x1, y1));
        }
    }
    pieces.push(piece);
    pieces
}

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

    #[test]
    fn dashes_run_on_around_a_corner() {
        let pieces = dashes(&[(0.0, 0.0), (12.0, 0.0), (12.0, 12.0)], (8.0, 2.0));
        assert_eq!(
            pieces,
            [
                vec![(0.0, 0.0), (8.0, 0.0)],
                vec![(10.0, 0.0), (12.0, 0.0), (12.0, 6.0)],
                vec![(12.0, 8.0), (12.0, 12.0)]
            ]
        );
    }
}
