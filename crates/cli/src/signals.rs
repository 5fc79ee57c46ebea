//! Ctrl-C and its relatives.

use plimsoll_train::StopFlag;

#[cfg(unix)]
use crate::exit::SIGNALLED;

/// Sets the flag at the first SIGINT or SIGTERM, and ends the process at the second.
#[cfg(unix)]
pub(crate) fn watch(stop: &StopFlag) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if stop.set(signal) {
                crate::display::print("\nending after this step; a second signal ends at once\n");
                continue;
            }
            // Files are written under temporary names, so ending here damages none; nothing of the process is run any
            // more, because its other threads are in the middle of their work.
            signal_hook::low_level::exit(SIGNALLED + signal);
        }
    });
    Ok(())
}

/// Other systems end the process at the first signal; the last checkpoint remains.
#[cfg(not(unix))]
pub(crate) fn watch(_stop: &StopFlag) -> anyhow::Result<()> {
    Ok(())
}
