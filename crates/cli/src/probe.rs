//! `plimsoll probe`.

use std::process::ExitCode;

use plimsoll_probe::survey;

use crate::beat::Beat;

pub(crate) fn probe() -> ExitCode {
    let beat = Beat::start("probing");
    let entries = survey();
    drop(beat);
    for entry in entries {
        println!("{entry}");
    }
    ExitCode::SUCCESS
}
