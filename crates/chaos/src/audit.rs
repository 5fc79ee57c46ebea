//! What became of the samples.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_types::Event;

use crate::log::RunLog;

/// How often each sample was taken in each epoch.
type Counts = BTreeMap<(u64, u64), u64>;

/// What became of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) problems: Vec<String>,
}

/// Holds the samples of a log against those of the undisturbed run.
pub(crate) fn audit(log: &RunLog, undisturbed: &RunLog) -> Audit {
    let mut audit = audit_steps(log, undisturbed);
    let (taken, wanted) = (samples(log), samples(undisturbed));
    for key in taken.keys().chain(wanted.keys().filter(|it| !taken.contains_key(*it))) {
        audit.hold(count(&taken, *key), count(&wanted, *key));
    }
    if sizes(log) != sizes(undisturbed) {
        audit.problems.push("the effective batch varies".to_owned());
    }
    audit
}

/// Holds the samples of each epoch against all that there are, where which of them come together depends on what fits: each
/// comes once in an epoch that has ended, and at most once in the last.
pub(crate) fn audit_epochs(log: &RunLog, undisturbed: &RunLog) -> Audit {
    let mut audit = audit_steps(log, undisturbed);
    let (taken, ended) = (samples(log), ended(log));
    let all: BTreeSet<u64> = samples(undisturbed).into_keys().map(|(_, id)| id).collect();
    for epoch in &ended {
        for id in &all {
            audit.hold(count(&taken, (*epoch, *id)), 1);
        }
    }
    for (_, n) in taken.iter().filter(|((epoch, id), _)| !ended.contains(epoch) || !all.contains(id)) {
        audit.hold(*n, 1);
    }
    if ended.is_empty() {
        audit.problems.push("no epoch has ended".to_owned());
    }
    audit
}

impl Audit {
    fn hold(&mut self, taken: u64, wanted: u64) {
        self.lost += wanted.saturating_sub(taken);
        self.repeated += taken.saturating_sub(wanted);
    }
}

/// Looks at the steps whatever they hold.
fn audit_steps(log: &RunLog, undisturbed: &RunLog) -> Audit {
    let mut audit = Audit::default();
    if !log.is_complete() {
        audit.problems.push("the log does not end with a completed run".to_owned());
    }
    if !log.steps().map(|it| it.step).eq(undisturbed.steps().map(|it| it.step)) {
        audit.problems.push("the steps are not numbered one after another".to_owned());
    }
    if log.steps().any(|it| !(it.loss.is_finite() && it.gradient_norm.is_finite())) {
        audit.problems.push("a loss or a gradient is not finite".to_owned());
    }
    audit
}

/// Counts each sample of each epoch, of all ranks.
fn samples(log: &RunLog) -> Counts {
    let mut counts = BTreeMap::new();
    for done in log.shares().filter(|it| it.committed) {
        for id in done.micro_batches.iter().flat_map(|it| &it.ids) {
            *counts.entry((done.epoch, *id)).or_default() += 1;
        }
    }
    counts
}

/// Counts the samples of each step, of all ranks.
fn sizes(log: &RunLog) -> BTreeMap<u64, u64> {
    let mut sizes = BTreeMap::new();
    for done in log.shares() {
        *sizes.entry(done.step).or_default() += done.n_samples();
    }
    sizes
}

fn count(of: &Counts, key: (u64, u64)) -> u64 {
    of.get(&key).copied().unwrap_or(0)
}

fn ended(log: &RunLog) -> BTreeSet<u64> {
    let epoch = |event: &Event| if let Event::EpochDone(done) = event { Some(done.epoch) } else { None };
    log.events.iter().filter_map(epoch).collect()
}
