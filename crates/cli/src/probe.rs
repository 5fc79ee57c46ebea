//! `plimsoll probe`.

use std::process::ExitCode;

use plimsoll_probe::survey;

pub(crate) fn probe() -> ExitCode {
    for entry in survey() {
        println!("{entry}");
    }
    ExitCode::SUCCESS
}
