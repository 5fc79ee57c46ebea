//! The process that trains, as its supervisor starts it.

use std::env;

use plimsoll_probe::{Host, OomKills, note_refusals_in, say_refusals_to};
use plimsoll_train::{Death, RunDir};

use crate::exit::user_error;

/// Set for a worker.
pub(crate) const WORKER: &str = "PLIMSOLL_WORKER";
/// How the worker before it died, in JSON.
pub(crate) const DEATH: &str = "PLIMSOLL_DEATH";

/// Whether this process was started by a supervisor.
pub(crate) fn is_one() -> bool {
    env::var_os(WORKER).is_some()
}

/// Prepares a worker, or a rank of one, for its own end and for its supervisor's; returns how the one before it died.
///
/// A process without a supervisor says itself what it was refused.
pub(crate) fn begin(rank: u32) -> anyhow::Result<Option<Death>> {
    if !is_one() {
        say_refusals();
        return Ok(None);
    }
    #[cfg(unix)]
    if rank == 0 {
        // The launcher passes its standard input on to the first.
        end_with_supervisor();
    }
    let Ok(death) = env::var(DEATH) else { return Ok(None) };
    Ok(serde_json::from_str(&death).map_err(|error| user_error(format!("read {DEATH}: {error}")))?)
}

/// Reads the kernel's counts; where they cannot be read, they say nothing.
pub(crate) fn oom_kills() -> OomKills {
    Host::new().oom_kills().unwrap_or_default()
}

/// Has a worker note for its supervisor what allocation is refused from now on, where both see it, on whatever machine each is;
/// where that cannot be, it says it itself.
pub(crate) fn note_refusals(run_dir: &mut RunDir) {
    if !is_one() {
        return;
    }
    match run_dir.refusal_file() {
        Ok(file) => note_refusals_in(file),
        Err(_) => say_refusals(),
    }
}

/// Says on standard error what allocation is refused from now on; what follows it is often the end.
#[cfg(unix)]
pub(crate) fn say_refusals() {
    use std::os::fd::AsFd;
    // Without a standard error there is nobody to tell.
    if let Ok(stderr) = std::io::stderr().as_fd().try_clone_to_owned() {
        say_refusals_to(stderr.into());
    }
}

/// There is no way to write to standard error without taking memory.
#[cfg(not(unix))]
pub(crate) fn say_refusals() {}

/// Takes the end of standard input for a SIGTERM: the supervisor holds the other side, and lets go only when it dies. A byte
/// that comes that way is a signal, which a launcher would not pass on.
#[cfg(unix)]
fn end_with_supervisor() {
    use std::io::Read;

    use signal_hook::consts::{SIGINT, SIGTERM};

    std::thread::spawn(|| {
        for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
            let signal = i32::from(byte);
            if [SIGINT, SIGTERM].contains(&signal) {
                drop(signal_hook::low_level::raise(signal));
            }
        }
        // However it ends, nobody holds the other side any more.
        drop(signal_hook::low_level::raise(SIGTERM));
    });
}
