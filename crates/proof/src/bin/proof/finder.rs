//! The finder against other tools' rules, simulated and on real devices that are capped.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_predict::Phase;
use plimsoll_probe::DeviceKind;
use plimsoll_proof::finder::{
    Answer, Comparison, Oracle, Outcome, Pool, RULES, Reading, Row, Rule, Setting, Tally, compare,
};
use plimsoll_proof::plans::Missing;
use plimsoll_types::{Bytes, Fraction, StepShape};
use serde::Serialize;

use crate::order::{Reply, Steps, Task};
use crate::spawn::Place;
use crate::{Failed, devices, publish};

/// With these the means are known to half a per cent, and a rare failure has a chance to show.
const N_SIMULATED: usize = 1000;

const SEED: u64 = 1;

/// The smallest edge, so that many batches can be run.
const EDGE: u32 = 16;

/// What is searched on a real device.
struct Range {
    batch_max: u32,
    /// Each capacity is what a step of so many samples takes, and [`SPARE`].
    capacities: &'static [u32],
}

/// Half of the smallest page: no card's capacity is a step's need to the byte.
const SPARE: Bytes = Bytes::mib(1);

const FULL: Range = Range { batch_max: 96, capacities: &[40, 56, 72] };

/// On a software device, each batch of which takes seconds.
const SMALL: Range = Range { batch_max: 48, capacities: &[28] };

/// Steps of a trial: the second one finds the optimizer's state.
const STEPS_OF_A_TRIAL: usize = 2;

/// Begins the names of our rules.
const OWN: &str = "plimsoll-";

/// The content of `finder.json`: the simulated comparison, those on real devices, and why others are missing.
#[derive(Serialize)]
struct Finder {
    #[serde(flatten)]
    simulated: Comparison,
    real: Vec<Comparison>,
    missing: Vec<Missing>,
}

/// `proof finder`.
pub(crate) fn command(out: &Path, kinds: &[DeviceKind]) -> Result<(), Failed> {
    let simulated = compare(N_SIMULATED, SEED);
    println!("{simulated}");
    let (places, mut missing) = devices::at_hand(kinds, None, None);
    let mut real = Vec::new();
    for place in &places {
        match on_device(place) {
            Ok(comparison) => {
                println!("{comparison}");
                real.push(comparison);
            }
            Err(error) => missing.push(Missing { what: place.name.clone(), reason: error.to_string() }),
        }
    }
    for it in &missing {
        println!("{}: failed to {}", it.what, it.reason);
    }
    publish::publish(out, &serde_json::to_string_pretty(&Finder { simulated, real, missing })?)?;
    println!("{}", out.display());
    Ok(())
}

/// Runs the rules on a real device, at some capacities.
///
/// Ours is what a user runs: the search with the dry run where there is one, else the one with probes.
pub(crate) fn on_device(place: &Place) -> Result<Comparison, Failed> {
    let Range { batch_max, capacities } = if devices::is_software(place) { SMALL } else { FULL };
    let device = Real { place, batch_max, trials: RefCell::default() };
    let budgets: Vec<_> = capacities
        .iter()
        .map(|batch| Ok(device.trial(*batch)?.peak.saturating_add(SPARE)))
        .collect::<Result<_, Failed>>()?;
    let own = if place.device == DeviceKind::Flex { "plimsoll-probed" } else { "plimsoll-planned" };
    let row = |rule: &Rule| -> Result<Row, Failed> {
        let answer = |budget: &Bytes| {
            if rule.name == own { device.found(*budget) } else { device.answer(rule, *budget) }
        };
        Ok(Row::new(rule, &budgets.iter().map(answer).collect::<Result<Vec<_>, _>>()?))
    };
    let rules = RULES.iter().filter(|it| it.name == own || !it.name.starts_with(OWN));
    let rules = rules.map(row).collect::<Result<_, _>>()?;
    let name = format!("{} capped", place.name);
    Ok(Comparison { device: name, n_devices: budgets.len(), noise: 0.0, batch_max, seed: 0, rules })
}

/// A real device, of which each batch is run once for all rules, in a fresh process.
struct Real<'a> {
    place: &'a Place,
    batch_max: u32,
    trials: RefCell<BTreeMap<u32, Reading>>,
}

impl Real<'_> {
    /// Searches with another tool's rule.
    fn answer(&self, rule: &Rule, budget: Bytes) -> Result<Answer, Failed> {
        let setting = Setting { budget, edge: EDGE, batch_max: self.batch_max, noise: Fraction::ZERO };
        let mut failure = None;
        let mut step = |batch| match self.trial(batch) {
            Ok(reading) if reading.peak <= budget => Outcome::Fitted(reading),
            Ok(_) => Outcome::OutOfMemory,
            Err(error) => {
                failure.get_or_insert(error);
                Outcome::OutOfMemory
            }
        };
        let no_plan = |_| None;
        let mut oracle = Oracle::new(setting, &mut step, &no_plan);
        let batch = (rule.search)(&mut oracle);
        let tally = oracle.tally();
        match failure {
            Some(error) => Err(error),
            None => Ok(Answer { batch, best: self.best(budget)?, tally, may_fail: false }),
        }
    }

    /// Searches as a user does.
    fn found(&self, budget: Bytes) -> Result<Answer, Failed> {
        let task = Task::Find { extent: EDGE.into(), batch_max: self.batch_max, capacity: budget };
        let Reply::Find(found) = self.place.ask(task)? else { return Err("get a batch".into()) };
        let tally = Tally { trials: found.n_trials, ooms: found.n_out_of_memory };
        let may_fail = budget < self.trial(found.batch)?.peak;
        Ok(Answer { batch: found.batch, best: self.best(budget)?, tally, may_fail })
    }

    /// Returns the largest batch that fits, by bisection: what a step takes grows with its batch.
    fn best(&self, budget: Bytes) -> Result<u32, Failed> {
        let (mut fits, mut fails) = (1, self.batch_max + 1);
        while fits + 1 < fails {
            let middle = u32::midpoint(fits, fails);
            if self.trial(middle)?.peak <= budget { fits = middle } else { fails = middle }
        }
        Ok(fits)
    }

    fn trial(&self, batch: u32) -> Result<Reading, Failed> {
        if let Some(reading) = self.trials.borrow().get(&batch) {
            return Ok(*reading);
        }
        let shape = StepShape::new(batch, EDGE);
        let (phase, n_samples, count) = (Phase::Train, batch, STEPS_OF_A_TRIAL);
        // As in the search, which has no loader.
        let steps = Steps { phase, shape, n_samples, count, largest: None };
        let Reply::Cell(cell) = self.place.ask(Task::Cell(steps))? else { return Err("get a step".into()) };
        let pool = cell.pools.map(|it| Pool { reserved: it.reserved, largest: it.largest });
        let reading = Reading { resident: cell.resident, peak: cell.peak, pool };
        self.trials.borrow_mut().insert(batch, reading);
        Ok(reading)
    }
}
