//! What is done to a run.

use serde::Serialize;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// SIGKILL to the worker.
    KillWorker,
    /// SIGKILL to the worker and to what supervises it.
    KillAll,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// A kill, and damage to the newest checkpoint.
    DamagedCheckpoint,
    /// A kill, and a file of the data that is not there when the run goes on.
    VanishedFile,
    /// Files can grow no further.
    FullDisk,
    /// The allocator refuses, and the process aborts.
    RefusedAllocation,
    /// A thread that reads samples panics.
    WorkerPanic,
    /// A sample cannot be read at the first try.
    ReadError,
    /// A sample cannot be read at two tries.
    Unreadable,
    /// A micro-batch exceeds the capacity.
    Oom,
    /// The optimizer's step exceeds the capacity.
    OomOptimizer,
    /// Less memory is there for some steps.
    CapacityFalls,
}

impl Kind {
    /// What is done from outside, and leaves the same weights bit by bit.
    pub(crate) const OUTSIDE: [Self; 7] = [
        Self::KillWorker,
        Self::KillAll,
        Self::Interrupt,
        Self::Terminate,
        Self::DamagedCheckpoint,
        Self::VanishedFile,
        Self::FullDisk,
    ];
    /// What happens inside the process, and leaves the same weights bit by bit.
    pub(crate) const INSIDE: [Self; 4] =
        [Self::RefusedAllocation, Self::WorkerPanic, Self::ReadError, Self::Unreadable];

    /// Whether it is a kill −9 at a random moment.
    pub(crate) const fn is_kill(self) -> bool {
        matches!(self, Self::KillWorker | Self::KillAll | Self::DamagedCheckpoint | Self::VanishedFile)
    }

    /// Whether the whole program may end with an error for it, to be started again by whoever runs it.
    pub(crate) const fn may_end_the_run(self) -> bool {
        matches!(self, Self::WorkerPanic | Self::Unreadable)
    }

    pub(crate) fn name(self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json.as_str().unwrap_or_default().to_owned()
    }
}
