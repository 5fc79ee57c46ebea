//! What happens in a round.

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::rng::Rng;
use crate::setting::{Mode, SEEDS, STEPS, Setting, Size};
use crate::subject::Subject;

/// What the allocator still gives before it refuses, in bytes: less than a micro-batch of [`Subject::refused`] samples takes,
/// and enough for the first step of the next process.
const LEFT: u64 = 1_500_000;
/// Micro-batches after which a process has made what it keeps.
const WARM: u64 = 16;

/// A fault from outside, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside {
    pub(crate) kind: Kind,
    pub(crate) moment: Moment,
    /// Decides what the moment leaves open: which file, where in it.
    pub(crate) dice: u64,
}

/// A moment of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// Milliseconds after it was started.
    AfterStart(u64),
    /// Milliseconds after the run has logged so many steps.
    AfterStep(u64, u64),
}

/// A fault inside the process; see the variable `PLIMSOLL_FAULTS`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inside {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    at: u64,
    /// Of a capacity that falls: what is left of it, and for how many steps.
    fall: (f64, u64),
}

/// A round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) round: u64,
    pub(crate) setting: Setting,
    pub(crate) outside: Vec<Outside>,
    pub(crate) inside: Vec<Inside>,
}

impl Plan {
    /// Rounds of kills and of memory take turns, and every two of them have another subject.
    pub(crate) fn new(seed: u64, round: u64) -> Self {
        let mut rng = Rng::of_round(seed, round);
        let mode = if round.is_multiple_of(2) { Mode::Deterministic } else { Mode::Adaptive };
        let (seed, keeps_copy) = (rng.between(0, SEEDS - 1), rng.share() < 0.5);
        let subject = Subject::ALL[usize::try_from(round / 2 % Subject::ALL.len() as u64).unwrap_or(0)];
        let setting = Setting { subject, mode, seed, size: Size::Small, keeps_copy };
        let mut plan = Self { round, setting, outside: Vec::new(), inside: Vec::new() };
        if mode == Mode::Deterministic {
            plan.outside.push(outside(&mut rng, Kind::KillAll));
            plan.add(&mut rng, 3);
        } else {
            for _ in 0..rng.between(2, 4) {
                plan.push_inside(&mut rng, Kind::Oom);
            }
            for kind in [Kind::CapacityFalls, Kind::OomOptimizer] {
                if rng.share() < 0.7 {
                    plan.push_inside(&mut rng, kind);
                }
            }
            plan.add(&mut rng, 1);
        }
        plan
    }

    /// A run with `n` parts that run out of memory, evenly spread.
    pub(crate) fn of_ooms(setting: Setting, n: u64, parts: u64) -> Self {
        let inside = (0..n).map(|id| Inside { id, kind: Kind::Oom, at: 3 + id * parts / n, fall: (0.0, 0) });
        Self { round: 0, setting, outside: Vec::new(), inside: inside.collect() }
    }

    /// Adds faults that leave the same weights: `least` of them, or up to two more.
    fn add(&mut self, rng: &mut Rng, least: u64) {
        for _ in 0..rng.between(least, least + 2) {
            if rng.share() < 0.6 {
                let kind = rng.pick(&Kind::OUTSIDE);
                self.outside.push(outside(rng, kind));
            } else {
                let kind = rng.pick(&Kind::INSIDE);
                self.push_inside(rng, kind);
            }
        }
    }

    fn push_inside(&mut self, rng: &mut Rng, kind: Kind) {
        // A step has two to eight micro-batches, one reading of the capacity, and reads its samples ahead.
        let most = match kind {
            Kind::CapacityFalls => STEPS * 2 / 3,
            Kind::WorkerPanic | Kind::ReadError | Kind::Unreadable => STEPS * 12,
            _ => STEPS * 3 / 2,
        };
        let least = if kind == Kind::RefusedAllocation { WARM } else { 1 };
        let fall = (0.6 + 0.3 * rng.share(), rng.between(1, 8));
        self.inside.push(Inside { id: self.inside.len() as u64, kind, at: rng.between(least, most), fall });
    }

    /// Returns what the process is to be told of its faults; `used` is the file where those that happened are noted.
    pub(crate) fn variable(&self, used: &std::path::Path) -> String {
        let faults: Vec<Value> = self.inside.iter().map(|it| it.order(self.setting.subject)).collect();
        json!({"used": used, "faults": faults}).to_string()
    }
}

impl Inside {
    fn order(&self, subject: Subject) -> Value {
        let mut order = json!({"id": self.id, "at": self.at, "kind": self.kind.name()});
        if self.kind == Kind::CapacityFalls {
            order["share"] = json!(self.fall.0);
            order["steps"] = json!(self.fall.1);
        }
        if self.kind == Kind::RefusedAllocation {
            order["bytes"] = json!(LEFT);
            order["samples"] = json!(subject.refused());
        }
        order
    }
}

/// Half of the moments are anywhere in the run, the others in the first second of a process.
fn outside(rng: &mut Rng, kind: Kind) -> Outside {
    let moment = if rng.share() < 0.5 {
        Moment::AfterStep(rng.between(0, STEPS - 5), rng.between(0, 20))
    } else {
        Moment::AfterStart(rng.between(0, 700))
    };
    Outside { kind, moment, dice: rng.next() }
}
