//! What a step takes.

use plimsoll_types::Event;
use serde::Serialize;

/// A step of a real run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// How many micro-batches it had.
    pub n_micro_batches: usize,
    /// Their padded positions.
    pub positions: u64,
    /// How long it took.
    pub seconds: f64,
}

impl Timed {
    /// Returns the steps of the second half of a run, in which all is warm.
    pub fn of(events: &[Event]) -> Vec<Self> {
        let steps: Vec<_> = events.iter().filter_map(Self::of_event).collect();
        steps[steps.len() / 2..].to_vec()
    }

    fn of_event(event: &Event) -> Option<Self> {
        let Event::StepDone(step) = event else { return None };
        let positions = step.micro_batches.iter().map(|it| it.shape().positions()).sum();
        let it = Self { n_micro_batches: step.micro_batches.len(), positions, seconds: step.seconds };
        Some(it).filter(|_| step.committed)
    }
}

/// What a step takes, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepCost {
    /// By itself: the optimizer, and what is done once.
    pub step: f64,
    /// For each micro-batch.
    pub micro_batch: f64,
    /// For each padded position.
    pub position: f64,
}

impl StepCost {
    /// Returns what fits the steps best, by the least squares of relative errors; none where the steps are too much alike to
    /// tell one cost from another.
    pub fn fit(steps: &[Timed]) -> Option<Self> {
        // Normal equations, with the right side as the last column.
        let mut rows = [[0.0_f64; 4]; 3];
        for Timed { n_micro_batches, positions, seconds } in steps {
            let of = [1.0, *n_micro_batches as f64, *positions as f64, *seconds].map(|it| it / seconds);
            for (row, at) in rows.iter_mut().zip(0..) {
                row.iter_mut().zip(of).for_each(|(sum, it)| *sum += of[at] * it);
            }
        }
        let [step, micro_batch, position] = solve(rows)?;
        // A cost that is too small to be seen may come out below nothing.
        Some(Self { step: step.max(0.0), micro_batch: micro_batch.max(0.0), position }).filter(|it| 0.0 < it.position)
    }

    /// Returns what a step of one device takes, of which a position takes a part of what was measured.
    pub fn seconds(&self, n_micro_batches: usize, positions: u64, speed: f64) -> f64 {
        self.step + self.micro_batch * n_micro_batches as f64 + self.position * positions as f64 / speed
    }
}

/// Solves three equations by elimination, the largest pivot first.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    // Positions are some thousand times as many as micro-batches.
    let scales = [0, 1, 2].map(|at| rows[at][at].sqrt());
    for (row, at) in rows.iter_mut().zip(0..) {
        (0..3).for_each(|column| row[column] /= scales[at] * scales[column]);
        row[3] /= scales[at];
    }
    for at in 0..3 {
        let most = (at..3).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, most);
        let pivot = rows[at];
        // Without steps it is no number.
        if pivot[at].is_nan() || pivot[at].abs() < 1e-9 {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let factor = row[at] / pivot[at];
            row.iter_mut().zip(pivot).for_each(|(it, of)| *it -= factor * of);
        }
    }
    Some([0, 1, 2].map(|at| rows[at][3] / rows[at][at] / scales[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(n_micro_batches: usize, positions: u64, seconds: f64) -> Timed {
        Timed { n_micro_batches, positions, seconds }
    }

    #[test]
    fn what_steps_were_made_of_is_found_again() {
        let cost = StepCost { step: 4e-3, micro_batch: 2e-3, position: 7e-5 };
        let step = |(n, positions): (usize, u64)| timed(n, positions, cost.seconds(n, positions, 1.0));
        let found = StepCost::fit(&[(1, 1_024), (4, 4_100), (16, 4_300), (9, 2_000)].map(step)).unwrap();
        for (found, real) in [(found.step, 4e-3), (found.micro_batch, 2e-3), (found.position, 7e-5)] {
            assert!((found / real - 1.0).abs() < 1e-6, "{found} {real}");
        }
    }

    #[test]
    fn steps_that_are_alike_tell_nothing() {
        assert_eq!(StepCost::fit(&[timed(4, 4_096, 0.3); 5]), None);
        assert_eq!(StepCost::fit(&[]), None);
    }
}
