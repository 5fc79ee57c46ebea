//! The program that ships.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll_cli::run(&plimsoll_cli::Plain)
}
