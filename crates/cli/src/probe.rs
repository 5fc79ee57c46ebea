//! `plimsoll probe`.

use std::process::ExitCode;

use plimsoll_probe::survey;

pub(crate) fn probe() -> anyhow::Result<ExitCode> {
    for entry in survey() {
        println!("{entry}");
    }
    Ok(ExitCode::SUCCESS)
}
