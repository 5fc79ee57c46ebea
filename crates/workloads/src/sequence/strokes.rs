//! Pen strokes as sequences of short steps.

use std::io::Read;
use std::path::Path;

use super::fault::Fault;
use super::sound::open;

/// Values of a frame: the step (x, y), whether the pen was up, the step's duration, and the position (x, y).
pub(crate) const VALUES: usize = 6;

/// Length of a step, in longer sides of the drawing.
const STEP: f32 = 1.0 / 24.0;

/// What a duration in ms is divided by before its logarithm is taken: about the time of a step.
const PACE: f32 = 50.0;

/// A point of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    x: f32,
    y: f32,
    /// Time in ms.
    t: f32,
}

/// Reads a trace: `x,y,t` lines, with `START` before the first stroke and `BREAK` after each.
///
/// The drawing is scaled to its longer side, and every stroke is resampled to equal steps, so that the length depends
/// neither on the size of the drawing nor on the rate of the pen.
///
/// # Shapes
///
/// - output: `[n_points, VALUES]`
pub(crate) fn read(path: &Path) -> Result<Vec<f32>, Fault> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    let mut strokes = parse(&String::from_utf8_lossy(&bytes))?;
    scale(&mut strokes);
    Ok(values(&strokes))
}

fn parse(text: &str) -> Result<Vec<Vec<Point>>, Fault> {
    let mut strokes = vec![Vec::new()];
    for (at, line) in text.lines().enumerate() {
        match line.trim() {
            "START" | "BREAK" => strokes.push(Vec::new()),
            "" => (),
            line => {
                let broken = || Fault::TraceLine { line: at + 1, found: line.chars().take(40).collect() };
                strokes.last_mut().ok_or_else(broken)?.push(point(line).ok_or_else(broken)?);
            }
        }
    }
    strokes.retain(|stroke| !stroke.is_empty());
    if strokes.is_empty() { Err(Fault::Empty("points")) } else { Ok(strokes) }
}

fn point(line: &str) -> Option<Point> {
    let mut numbers = line.split(',').map(|it| it.trim().parse().ok().filter(|it: &f32| it.is_finite()));
    let point = Point { x: numbers.next()??, y: numbers.next()??, t: numbers.next()?? };
    numbers.next().is_none().then_some(point)
}

/// Puts the middle of the drawing at the origin and makes its longer side 1.
fn scale(strokes: &mut [Vec<Point>]) {
    let range = |of: fn(&Point) -> f32| {
        let values = strokes.iter().flatten().map(of);
        values.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), it| (low.min(it), high.max(it)))
    };
    let ((left, right), (bottom, top)) = (range(|it| it.x), range(|it| it.y));
    let side = (right - left).max(top - bottom);
    // A drawing of one point has no side.
    let scale = if side > f32::MIN_POSITIVE { 1.0 / side } else { 0.0 };
    for point in strokes.iter_mut().flatten() {
        point.x = (point.x - f32::midpoint(left, right)) * scale;
        point.y = (point.y - f32::midpoint(bottom, top)) * scale;
    }
}

/// Returns the frames: one for each point, seen from the one before.
fn values(strokes: &[Vec<Point>]) -> Vec<f32> {
    let (mut values, mut before) = (Vec::new(), strokes[0][0]);
    for stroke in strokes {
        for (at, point) in resample(stroke).into_iter().enumerate() {
            let (dx, dy) = ((point.x - before.x) / STEP, (point.y - before.y) / STEP);
            // With the pen up, the way may be long; where it leads is said by the position.
            let steps = dx.hypot(dy).max(1.0);
            let is_up = f32::from(u8::from(at == 0));
            let duration = ((point.t - before.t).max(0.0) / PACE).ln_1p();
            values.extend([dx / steps, dy / steps, is_up, duration, 2.0 * point.x, 2.0 * point.y]);
            before = point;
        }
    }
    values
}

/// Places points at equal distances along a stroke, and one at its end where that is not near the last of them.
fn resample(stroke: &[Point]) -> Vec<Point> {
    let (mut points, mut to_go) = (vec![stroke[0]], STEP);
    for pair in stroke.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        let mut distance = (to.x - from.x).hypot(to.y - from.y);
        while to_go <= distance {
            let share = to_go / distance;
            let between = |a: f32, b: f32| a + (b - a) * share;
            from = Point { x: between(from.x, to.x), y: between(from.y, to.y), t: between(from.t, to.t) };
            points.push(from);
            (distance, to_go) = (distance - to_go, STEP);
        }
        to_go -= distance;
    }
    // Less than half a step is left out.
    if to_go < 0.5 * STEP {
        points.push(stroke[stroke.len() - 1]);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(text: &str) -> Vec<[f32; VALUES]> {
        let mut strokes = parse(text).unwrap();
        scale(&mut strokes);
        values(&strokes).chunks_exact(VALUES).map(|it| it.try_into().unwrap()).collect()
    }

    #[test]
    fn a_line_becomes_equal_steps_in_its_direction() {
        let frames = frames("START\n0,0,0\n10,0,100\n96,0,1000\nBREAK\n");
        assert_eq!(frames.len(), 25);
        assert_eq!((frames[0][2], frames[0][4]), (1.0, -1.0));
        for frame in &frames[1..] {
            assert!((frame[0] - 1.0).abs() < 1e-4 && frame[1] == 0.0 && frame[2] == 0.0, "{frame:?}");
        }
        assert!((frames[24][4] - 1.0).abs() < 1e-5);
    }

    #[test]
    fn size_and_sampling_of_a_drawing_do_not_show() {
        let coarse = frames("START\n0,0,0\n0,-48,480\nBREAK\n10,-48,900\n10,0,1380\nBREAK");
        let fine =
            frames("START\n5,5,0\n5,-7,120\n5,-31,360\n5,-91,960\nBREAK\n25,-91,1380\n25,-43,1860\n25,5,2340\nBREAK");
        assert_eq!(coarse.len(), fine.len());
        let place = |frame: &[f32; VALUES]| [frame[0], frame[1], frame[2], frame[4], frame[5]];
        for (a, b) in coarse.iter().zip(&fine) {
            assert!(place(a).iter().zip(place(b)).all(|(a, b)| (a - b).abs() < 1e-3), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_point_is_a_drawing() {
        for text in ["START\n3,4,5\nBREAK", "3,4,5", "3,4,5\n3,4,9", "1e-44,0,0\n0,1e-44,0", "3e38,0,0\n-3e38,0,0"] {
            let frames = frames(text);
            assert!(!frames.is_empty() && frames.as_flattened().iter().all(|it| it.is_finite()), "{text}: {frames:?}");
        }
    }

    #[test]
    fn broken_lines_are_named() {
        for (line, text) in [(2, "START\n1,2\n"), (3, "START\n1,2,3\n1,2,inf"), (1, "1,2,3,4"), (2, "1,2,3\nSTOP")] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, Fault::TraceLine { line: at, .. } if at == line), "{text}: {error}");
        }
        assert!(matches!(parse("START\nBREAK\n"), Err(Fault::Empty("points"))));
    }
}
