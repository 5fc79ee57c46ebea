//! How long Plimsoll's own work takes, measured inside the run.

use std::time::{Duration, Instant};

use serde::Serialize;
use tracing::{Span, info_span};

/// What the time of a step is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lap {
    /// Reading memory.
    Probe,
    /// Learning from a step and predicting the next.
    Predict,
    /// Deciding, the predictions that the decision asks for included.
    Policy,
    /// Preflight and split.
    Guard,
    /// Drawing the samples and handing them over.
    Sampler,
    /// Writing the log and showing progress.
    Monitor,
    /// Whatever else is done for a step: asking for it, and saying what it did.
    Rest,
    /// Reading the losses, and what depends on every gradient: on a device that works beside the host, what was waited for
    /// the passes is in it.
    Check,
    /// Waiting for samples that other threads read and collate.
    Waiting,
    /// Waiting for other ranks, and adding what they have made.
    Ranks,
    /// Forward, backward and the optimizer's step.
    Passes,
    /// The whole step.
    Step,
}

impl Lap {
    /// Returns a span, where somebody traces the run; none for what is booked afterwards.
    pub fn span(self) -> Span {
        match self {
            Self::Probe => info_span!("probe"),
            Self::Predict => info_span!("predict"),
            Self::Policy => info_span!("policy"),
            // To draw and to wait are one phase.
            Self::Sampler => info_span!("load"),
            Self::Monitor => info_span!("log"),
            Self::Guard | Self::Rest | Self::Check | Self::Waiting | Self::Ranks | Self::Passes | Self::Step => {
                Span::none()
            }
        }
    }
}

const N_LAPS: usize = Lap::Step as usize + 1;

/// Adds up the laps of a step and keeps one row for each of the last steps.
#[derive(Debug)]
pub struct Stopwatch {
    current: [Duration; N_LAPS],
    rows: Vec<[f32; N_LAPS]>,
    n_steps: usize,
    began: Instant,
    checkpoints: (u32, Duration),
    /// Waiting for samples and for ranks, and steps.
    totals: [Duration; 3],
}

/// Rows that are kept: those of the last steps, in 128 KiB.
const MAX_ROWS: usize = 4096;

/// Medians over the steps of a run, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Overhead {
    /// Steps measured.
    pub steps: usize,
    /// Plimsoll's own work per step.
    pub median_us: Work,
    /// The check before the optimizer; on a device that works beside the host, the wait for the passes is in it.
    pub check_us: f64,
    /// The whole step.
    pub step_us: f64,
    /// Median total of the own work over the median step.
    pub overhead_ratio: f64,
    /// Median check over the median step.
    pub check_ratio: f64,
    /// What all steps have waited for their samples.
    pub waiting: Waiting,
    /// What they have waited for other ranks, and to add what these have made; `None` where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Waiting>,
    /// Checkpoints written.
    pub checkpoints: u32,
    /// Mean time that steps wait for a checkpoint, in seconds: it is flushed to the disk while they go on.
    pub checkpoint_seconds: f64,
    /// Time of all checkpoints over the wall time since the stopwatch was made.
    pub checkpoint_ratio: f64,
}

/// What steps have waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waiting {
    /// Seconds of all steps.
    pub seconds: f64,
    /// The part of the steps' time.
    pub ratio: f64,
}

/// Medians of Plimsoll's own work per step, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Work {
    /// Reading memory.
    pub probe: f64,
    /// Learning from a step and predicting the next.
    pub predict: f64,
    /// Deciding.
    pub policy: f64,
    /// Preflight and split.
    pub guard: f64,
    /// Drawing samples.
    pub sampler: f64,
    /// Log and progress.
    pub monitor: f64,
    /// What is left of the step without its passes.
    pub rest: f64,
    /// All of it: the median of the sums, not the sum of the medians.
    pub total: f64,
}

impl Overhead {
    /// Writes the figures as a JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|_| unreachable!("numbers and names are always JSON"))
    }
}

impl Stopwatch {
    /// Makes room for so many steps, so that measuring does not allocate while they run; the last 4096 are kept.
    pub fn with_capacity(n_steps: usize) -> Self {
        let rows = Vec::with_capacity(n_steps.min(MAX_ROWS));
        Self {
            current: [Duration::ZERO; N_LAPS],
            rows,
            n_steps: 0,
            began: Instant::now(),
            checkpoints: (0, Duration::ZERO),
            totals: [Duration::ZERO; 3],
        }
    }

    /// Runs `work` in a span, and books its time.
    pub fn time<T>(&mut self, lap: Lap, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = lap.span().in_scope(work);
        self.book(lap, start.elapsed());
        result
    }

    /// Books time that was measured elsewhere.
    pub fn book(&mut self, lap: Lap, time: Duration) {
        self.current[lap as usize] += time;
    }

    /// Books a checkpoint, which belongs to no step.
    pub fn book_checkpoint(&mut self, time: Duration) {
        self.checkpoints = (self.checkpoints.0 + 1, self.checkpoints.1 + time);
    }

    /// Books what was waited for a checkpoint to be on the disk.
    pub fn book_wait_for_checkpoint(&mut self, time: Duration) {
        self.checkpoints.1 += time;
    }

    /// Returns all that was booked since the last step ended.
    pub fn booked(&self) -> Duration {
        self.current.iter().sum()
    }

    /// Ends a step.
    pub fn end_step(&mut self) {
        for (total, lap) in self.totals.iter_mut().zip([Lap::Waiting, Lap::Ranks, Lap::Step]) {
            *total += self.current[lap as usize];
        }
        let row = self.current.map(|it| it.as_secs_f32() * 1e6);
        match self.rows.get_mut(self.n_steps % MAX_ROWS) {
            Some(oldest) => *oldest = row,
            None => self.rows.push(row),
        }
        self.n_steps += 1;
        self.current = [Duration::ZERO; N_LAPS];
    }

    /// Returns the part of the steps' time that these have waited for their samples, once a step has ended.
    pub fn waited(&self) -> Option<f64> {
        let [waited, _, stepped] = self.totals;
        (!stepped.is_zero()).then(|| waited.as_secs_f64() / stepped.as_secs_f64())
    }

    /// Returns the medians, or `None` before the first step has ended.
    pub fn overhead(&self) -> Option<Overhead> {
        let column = |lap: Lap| median(self.rows.iter().map(|row| f64::from(row[lap as usize])));
        let total =
            median(self.rows.iter().map(|row| row[..Lap::Check as usize].iter().map(|it| f64::from(*it)).sum()))?;
        let (check_us, step_us) = (column(Lap::Check)?, column(Lap::Step)?);
        let median_us = Work {
            probe: column(Lap::Probe)?,
            predict: column(Lap::Predict)?,
            policy: column(Lap::Policy)?,
            guard: column(Lap::Guard)?,
            sampler: column(Lap::Sampler)?,
            monitor: column(Lap::Monitor)?,
            rest: column(Lap::Rest)?,
            total,
        };
        let (checkpoints, time) = self.checkpoints;
        let ratio = |us: f64| if step_us > 0.0 { us / step_us } else { 0.0 };
        let [waited, of_ranks, stepped] = self.totals.map(|it| it.as_secs_f64());
        let waiting = |seconds| Waiting { seconds, ratio: if stepped > 0.0 { seconds / stepped } else { 0.0 } };
        Some(Overhead {
            steps: self.rows.len(),
            median_us,
            check_us,
            step_us,
            overhead_ratio: ratio(total),
            check_ratio: ratio(check_us),
            waiting: waiting(waited),
            ranks: (0.0 < of_ranks).then(|| waiting(of_ranks)),
            checkpoints,
            checkpoint_seconds: time.as_secs_f64() / f64::from(checkpoints.max(1)),
            checkpoint_ratio: time.as_secs_f64() / self.began.elapsed().as_secs_f64(),
        })
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_per_lap_and_the_total_leaves_check_and_step_out() {
        let mut stopwatch = Stopwatch::with_capacity(3);
        assert_eq!(stopwatch.overhead(), None);
        for us in [10, 20, 60] {
            stopwatch.book(Lap::Probe, Duration::from_micros(us));
            stopwatch.book(Lap::Policy, Duration::from_micros(4));
            stopwatch.book(Lap::Rest, Duration::from_micros(1));
            stopwatch.book(Lap::Passes, Duration::from_micros(700));
            stopwatch.book(Lap::Check, Duration::from_micros(100));
            stopwatch.book(Lap::Waiting, Duration::from_micros(10 * us));
            assert_eq!(stopwatch.booked(), Duration::from_micros(805 + 11 * us));
            stopwatch.book(Lap::Step, Duration::from_millis(1));
            stopwatch.end_step();
        }
        stopwatch.book_checkpoint(Duration::from_millis(10));
        stopwatch.book_checkpoint(Duration::from_millis(30));
        let overhead = stopwatch.overhead().unwrap();
        let check = |measured: f64, expected: f64| assert!((measured - expected).abs() < 1e-3, "{overhead:?}");
        check(overhead.median_us.probe, 20.0);
        check(overhead.median_us.total, 25.0);
        check(overhead.median_us.rest, 1.0);
        check(overhead.check_us, 100.0);
        check(overhead.step_us, 1000.0);
        check(overhead.overhead_ratio, 0.025);
        check(1e6 * overhead.waiting.seconds, 900.0);
        check(overhead.waiting.ratio, 0.3);
        assert_eq!(overhead.ranks, None);
        stopwatch.book(Lap::Ranks, Duration::from_micros(400));
        stopwatch.book(Lap::Step, Duration::from_millis(1));
        stopwatch.end_step();
        check(stopwatch.overhead().unwrap().ranks.unwrap().ratio, 0.1);
        assert_eq!(overhead.checkpoints, 2);
        check(overhead.checkpoint_seconds, 0.02);
    }
}
