//! What came of a simulation.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;

use serde::Serialize;

use super::case::Case;
use super::rig::{Kind, Ran, Rig};
use super::weather::Forecast;

/// Steps in which a run is to be back.
const IN_TIME: u64 = 200;

/// How much less than undisturbed still counts as back.
const BACK: f64 = 0.98;

/// Steps after which an undisturbed run has settled.
const SETTLED: u64 = 3000;

/// What came of one simulation; `recovery`'s documentation says what is counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The case.
    pub name: &'static str,
    /// The policy.
    pub kind: Option<Kind>,
    /// Steps.
    pub n_steps: u64,
    /// Disturbances that ended and were followed by calm for long enough to tell.
    pub ended: u64,
    /// Those after which the run was not back in time.
    pub late: u64,
    /// Most steps until a run was back.
    pub slowest: u64,
    /// Steps that ran out of memory.
    pub out_of_memory: u64,
    /// Those that could have been foreseen.
    pub foreseeable: u64,
    /// Changes of knobs or sizes in a thousand steps, on average.
    pub changes_per_1000: f64,
    /// Most changes in a thousand steps, wherever these begin after the first thousand.
    pub most_changes: usize,
    /// Mean share of the undisturbed work.
    pub share: f64,
    /// Bytes of policy and predictor as they are written, after a tenth of the steps.
    pub state_early: usize,
    /// Most bytes of policy and predictor.
    pub state_most: usize,
    /// Lines of the log besides those of the steps, in a thousand of them.
    pub events_per_1000: f64,
}

/// All rows, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// One for each case.
    pub rows: Vec<Row>,
}

/// Runs one case for so many steps.
///
/// # Errors
///
/// What policy or predictor refuse.
pub fn simulate(case: &Case, n_steps: u64, seed: u64) -> Result<Row, Box<dyn Error>> {
    let undisturbed = undisturbed(case, seed)?;
    let mut rig = Rig::new(case.kind, case.noise, seed)?;
    let mut forecast = Forecast::new(case.disturbance, seed ^ 0xa5a5);
    let mut tally = Tally::new(Row { name: case.name, kind: Some(case.kind), n_steps, ..Row::default() });
    for step in 0..n_steps {
        let weather = forecast.next(step);
        let followed = rig.follow(step, weather.seen);
        let share = share(&rig.work(), &undisturbed);
        tally.share(step, share, weather.is_calm());
        let ran = rig.step(step, &weather)?;
        tally.count(step, followed, false);
        tally.count(step, ran, weather.surprises);
        if step.is_multiple_of((n_steps / 50).max(1)) {
            let policy = serde_json::to_vec(&rig.policy)?.len();
            tally.state(step, policy + serde_json::to_vec(rig.learnt.predictor())?.len());
        }
    }
    Ok(tally.finish())
}

/// Returns the work that a run without a disturbance settles at.
fn undisturbed(case: &Case, seed: u64) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut rig = Rig::new(case.kind, case.noise, seed)?;
    let mut calm = Forecast::new(super::Disturbance::Calm, seed);
    for step in 0..SETTLED {
        let weather = calm.next(step);
        rig.follow(step, weather.seen);
        rig.step(step, &weather)?;
    }
    Ok(rig.work())
}

/// The mean over all edges of the share of the undisturbed work, at most all of it.
fn share(work: &[f64], undisturbed: &[f64]) -> f64 {
    work.iter().zip(undisturbed).map(|(work, whole)| (work / whole).min(1.0)).sum::<f64>() / work.len() as f64
}

/// The counts of a simulation under way.
struct Tally {
    row: Row,
    was_calm: bool,
    /// The step at which the last disturbance ended, while the run is not back.
    ended_at: Option<u64>,
    changes: u64,
    /// The steps of the changes in the last thousand steps.
    recent: VecDeque<u64>,
    events: u64,
    shares: f64,
}

impl Tally {
    fn new(row: Row) -> Self {
        Self { row, was_calm: true, ended_at: None, changes: 0, recent: VecDeque::new(), events: 0, shares: 0.0 }
    }

    fn share(&mut self, step: u64, share: f64, is_calm: bool) {
        self.shares += share;
        if is_calm && !self.was_calm {
            self.ended_at = Some(step);
        }
        self.was_calm = is_calm;
        let Some(ended) = self.ended_at else { return };
        let took = step - ended;
        if !is_calm || BACK <= share {
            // Calm that was too short says nothing.
            let tells = BACK <= share || IN_TIME < took;
            self.row.ended += u64::from(tells);
            self.row.late += u64::from(tells && IN_TIME < took);
            self.row.slowest = self.row.slowest.max(if tells { took } else { 0 });
            self.ended_at = None;
        }
    }

    fn count(&mut self, step: u64, ran: Ran, surprised: bool) {
        self.row.out_of_memory += u64::from(ran.out_of_memory);
        self.row.foreseeable += u64::from(ran.out_of_memory && !surprised);
        self.changes += u64::from(ran.changes);
        self.events += u64::from(ran.events);
        if 1000 <= step {
            self.recent.extend((0..ran.changes).map(|_| step));
            while self.recent.front().is_some_and(|first| *first + 1000 <= step) {
                self.recent.pop_front();
            }
            self.row.most_changes = self.row.most_changes.max(self.recent.len());
        }
    }

    fn state(&mut self, step: u64, bytes: usize) {
        if step * 10 <= self.row.n_steps {
            self.row.state_early = bytes;
        }
        self.row.state_most = self.row.state_most.max(bytes);
    }

    fn finish(mut self) -> Row {
        if let Some(took) = self.ended_at.map(|ended| self.row.n_steps - ended).filter(|took| IN_TIME < *took) {
            self.row.ended += 1;
            self.row.late += 1;
            self.row.slowest = self.row.slowest.max(took);
        }
        let thousands = self.row.n_steps as f64 / 1000.0;
        self.row.changes_per_1000 = self.changes as f64 / thousands;
        self.row.events_per_1000 = self.events as f64 / thousands;
        self.row.share = self.shares / self.row.n_steps as f64;
        self.row
    }
}

/// Returns the head of the table whose lines rows are.
pub fn table_head() -> String {
    format!(
        "{:<9} {:<24} {:>6} {:>6} {:>8} {:>6} {:>6} {:>8} {:>5} {:>7} {:>6} {:>6} {:>7}",
        "policy",
        "world",
        "ended",
        "late",
        "slowest",
        "oom",
        "seen",
        "changes",
        "most",
        "share",
        "state",
        "most",
        "events"
    )
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind == Some(Kind::Bucketed) { "bucketed" } else { "certified" };
        let Self { name, ended, late, slowest, out_of_memory, foreseeable, most_changes, .. } = self;
        write!(f, "{kind:<9} {name:<24} {ended:>6} {late:>6} {slowest:>8} {out_of_memory:>6} {foreseeable:>6} ")?;
        write!(f, "{:>8.2} {most_changes:>5} {:>5.1} % ", self.changes_per_1000, 100.0 * self.share)?;
        write!(f, "{:>6} {:>6} {:>7.2}", self.state_early, self.state_most, self.events_per_1000)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Disturbance, cases};
    use super::*;

    /// Steps that show some of every disturbance that does not last for hours.
    const N_STEPS: u64 = 2500;

    /// Steps in which bursts come singly, in pairs, and at the same time as a co-tenant.
    const MANY_STEPS: u64 = 12_000;

    fn short() -> impl Iterator<Item = (Case, u64)> {
        cases().into_iter().filter_map(|it| match it.disturbance {
            Disturbance::Halves { .. } => {
                Some((Case { disturbance: Disturbance::Halves { steps: 500 }, ..it }, N_STEPS))
            }
            Disturbance::CoTenant { steps, .. } => Some((it, N_STEPS)).filter(|_| steps < 1000.0),
            Disturbance::Bursts { .. } | Disturbance::Mixed => Some((it, MANY_STEPS)),
            _ => None,
        })
    }

    #[test]
    fn every_policy_is_back_in_time_after_every_disturbance() {
        for (case, n_steps) in short() {
            let row = simulate(&case, n_steps, 7).unwrap();
            assert!(row.ended > 0, "{row}");
            assert_eq!((row.late, row.foreseeable), (0, 0), "{row}");
            assert!(row.changes_per_1000 <= 10.0 && row.most_changes <= 10, "{row}");
        }
    }

    #[test]
    fn noise_moves_nothing_once_it_is_known() {
        for case in cases().into_iter().filter(|it| it.disturbance == Disturbance::Calm) {
            let row = simulate(&case, N_STEPS, 7).unwrap();
            assert_eq!(row.out_of_memory, 0, "{row}");
            assert!(row.most_changes <= 2, "{row}");
        }
    }
}
