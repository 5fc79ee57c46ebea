//! Signals, without which most of what is done to a run cannot be.

#[cfg(unix)]
pub(crate) use self::unix::{listen, of};

#[cfg(unix)]
mod unix {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use signal_hook::consts::{SIGINT, SIGTERM};

    use crate::Failed;

    /// Notes from now on that somebody has asked for the end.
    pub(crate) fn listen(stop: &Arc<AtomicBool>) -> Result<(), Failed> {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(stop))?;
        }
        Ok(())
    }

    /// Returns the signal that ended a process.
    pub(crate) fn of(status: ExitStatus) -> Option<i32> {
        status.signal()
    }
}

#[cfg(not(unix))]
pub(crate) use self::elsewhere::{listen, of};

#[cfg(not(unix))]
mod elsewhere {
    use std::process::ExitStatus;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use crate::Failed;

    /// Refuses to begin.
    pub(crate) fn listen(_stop: &Arc<AtomicBool>) -> Result<(), Failed> {
        Err("begin: runs are killed by signals and meet limits of `ulimit`, which takes Linux or another Unix".into())
    }

    /// No process ends by a signal.
    pub(crate) fn of(_status: ExitStatus) -> Option<i32> {
        None
    }
}
