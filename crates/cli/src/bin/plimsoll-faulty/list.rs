//! The faults that are still to come.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll_types::{Bytes, Phase};
use serde::Deserialize;
use serde_json::json;

/// The variable that lists the faults.
const VARIABLE: &str = "PLIMSOLL_FAULTS";

/// One fault.
#[derive(Clone, Debug, Deserialize)]
struct Fault {
    /// Tells the faults of a run apart.
    id: u64,
    /// After how many micro-batches, reads or readings of the capacity in this process.
    at: u64,
    #[serde(flatten)]
    kind: Kind,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A micro-batch finds the capacity taken, and exceeds it.
    Oom,
    /// A micro-batch reaches more than it needs: something else takes memory meanwhile.
    Excess {
        /// How much, in bytes.
        bytes: u64,
        /// Whether in a step or in a validation.
        phase: Phase,
    },
    /// The optimizer's step exceeds the capacity.
    OomOptimizer,
    /// Less memory is there for some steps.
    CapacityFalls {
        /// The part that is left.
        share: f64,
        /// For how many steps.
        steps: u64,
    },
    /// The allocator has no more: the process ends.
    RefusedAllocation {
        /// What it still gives, in bytes.
        bytes: usize,
        /// From a micro-batch of so many samples on.
        samples: usize,
    },
    /// The process is killed before a micro-batch.
    Kill,
    /// A thread that reads samples panics.
    WorkerPanic,
    /// A sample cannot be read, but at the second try.
    ReadError,
    /// A sample cannot be read at all, for now.
    Unreadable,
}

/// The faults of this process, and how far it has come.
pub(crate) struct List {
    waiting: Vec<Fault>,
    used: File,
    unfinished: Option<PathBuf>,
    pub(crate) parts: u64,
    pub(crate) reads: u64,
    /// Readings of memory since the last micro-batch began.
    pub(crate) readings: u64,
    /// Samples of the micro-batch that is about to begin, where that is known.
    pub(crate) announced: u32,
    /// What else is said to be in use, while a micro-batch runs out of memory.
    pub(crate) offset: Option<Bytes>,
    /// What else a micro-batch is said to have reached.
    pub(crate) excess: Bytes,
    /// What is left of the capacity, and for how many steps.
    pub(crate) fallen: Option<(f64, u64)>,
    pub(crate) capacity_readings: u64,
    /// A sample that will fail once more.
    failing: Option<u64>,
}

#[derive(Deserialize)]
struct Wanted {
    /// The file of faults that have happened, a line of JSON for each.
    used: PathBuf,
    /// What is there while a checkpoint is being written, for a kill to wait for: how far it has come is a matter of chance.
    unfinished: Option<PathBuf>,
    faults: Vec<Fault>,
}

impl List {
    /// Reads what is wanted; `None` without the variable.
    pub(crate) fn from_environment() -> Option<Self> {
        let wanted = std::env::var(VARIABLE).ok()?;
        let Wanted { used, unfinished, mut faults } =
            serde_json::from_str(&wanted).expect("PLIMSOLL_FAULTS lists faults in JSON");
        let noted = fs::read_to_string(&used).unwrap_or_default();
        let is_used = |it: &Fault| noted.lines().any(|line| line.starts_with(&format!("{{\"id\":{},", it.id)));
        faults.retain(|it| !is_used(it));
        let used = OpenOptions::new().create(true).append(true).open(&used).expect("the file of used faults opens");
        Some(Self {
            waiting: faults,
            used,
            unfinished,
            parts: 0,
            reads: 0,
            readings: 0,
            announced: 0,
            offset: None,
            excess: Bytes::ZERO,
            fallen: None,
            capacity_readings: 0,
            failing: None,
        })
    }

    /// Whether a fault of this kind is due.
    pub(crate) fn is_due(&self, at: u64, kind: impl Fn(&Kind) -> bool) -> bool {
        self.waiting.iter().any(|it| it.at <= at && kind(&it.kind))
    }

    /// Notes the next fault of this kind that is due as used, and returns it; a sample that cannot be read fails twice.
    pub(crate) fn take(&mut self, at: u64, kind: impl Fn(&Kind) -> bool, sample: u64) -> Option<Kind> {
        if self.failing.is_some_and(|it| it == sample && kind(&Kind::ReadError)) {
            self.failing = None;
            return Some(Kind::ReadError);
        }
        let index = self.waiting.iter().position(|it| it.at <= at && kind(&it.kind))?;
        let taken = self.note(index);
        if taken == Kind::Unreadable {
            self.failing = Some(sample);
        }
        Some(taken)
    }

    /// Waits until no checkpoint is being written, where a kill is to.
    pub(crate) fn await_checkpoint(&self) {
        while self.unfinished.as_ref().is_some_and(|it| it.exists()) {
            sleep(Duration::from_millis(1));
        }
    }

    /// Notes the first fault of this kind as used.
    pub(crate) fn use_up(&mut self, kind: impl Fn(&Kind) -> bool) {
        if let Some(index) = self.waiting.iter().position(|it| kind(&it.kind)) {
            self.note(index);
        }
    }

    /// Lets what runs now exceed its need, where that is due.
    pub(crate) fn exceed(&mut self, now: Phase) {
        let excess = self.take(self.parts, |it| matches!(it, Kind::Excess { phase, .. } if *phase == now), 0);
        if let Some(Kind::Excess { bytes, .. }) = excess {
            self.excess = Bytes(bytes);
        }
    }

    fn note(&mut self, index: usize) -> Kind {
        let Fault { id, kind, .. } = self.waiting.remove(index);
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis());
        let line = json!({"id": id, "millis": u64::try_from(millis).unwrap_or(0), "process": std::process::id()});
        writeln!(self.used, "{line}").expect("a used fault can be noted");
        kind
    }
}
