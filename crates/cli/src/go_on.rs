//! The command that goes on with a run, as it can be pasted into a shell.

use std::path::Path;

use crate::args::{LogFormat, TrainArgs};
use crate::shell::{program, quoted};

/// Returns the command that goes on with the run in a directory; what else it was given stands in its configuration.
pub(crate) fn command(args: &TrainArgs, out: &Path) -> String {
    of(&program(), args, out)
}

fn of(program: &str, args: &TrainArgs, out: &Path) -> String {
    // What begins as a flag does would be taken for one.
    let out =
        if out.as_os_str().as_encoded_bytes().starts_with(b"-") { Path::new(".").join(out) } else { out.to_owned() };
    let mut words = vec![program.to_owned(), "train".to_owned(), "--out".to_owned(), quoted(out.as_os_str())];
    words.push("--resume".to_owned());
    // The device decides what `cargo xtask` builds in.
    if let Some(device) = args.values.config.device() {
        words.extend(["--device".to_owned(), quoted(device.as_ref())]);
    }
    if let Some(ranks) = args.ranks {
        words.extend(["--ranks".to_owned(), ranks.to_string()]);
    }
    if let Some(address) = args.metrics_addr {
        words.extend(["--metrics-addr".to_owned(), address.to_string()]);
    }
    if let Some(file) = &args.trace {
        words.extend(["--trace".to_owned(), quoted(file.as_os_str())]);
    }
    if args.log == LogFormat::Lines {
        words.extend(["--log".to_owned(), "lines".to_owned()]);
    }
    if args.no_supervise {
        words.push("--no-supervise".to_owned());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[track_caller]
    fn check(args: &[&str], out: &str, expected: &str) {
        let Command::Train(args) = Cli::parse_from(["plimsoll", "train"].iter().chain(args)).command else { return };
        assert_eq!(of("plimsoll", &args, Path::new(out)), expected);
    }

    #[test]
    fn the_command_has_the_device_and_quotes_what_a_shell_would_not_keep() {
        check(&[], "runs/run-0001", "plimsoll train --out runs/run-0001 --resume");
        check(&["--device", "cuda:1"], "a b", "plimsoll train --out 'a b' --resume --device cuda:1");
        check(&["--no-supervise"], "it's", "plimsoll train --out 'it'\\''s' --resume --no-supervise");
        check(&[], "ภาพ$x", "plimsoll train --out 'ภาพ$x' --resume");
        check(&["--metrics-addr", "[::1]:1"], "a", "plimsoll train --out a --resume --metrics-addr [::1]:1");
        check(&["--trace", "a b"], "a", "plimsoll train --out a --resume --trace 'a b'");
        check(&["--log", "lines"], "a", "plimsoll train --out a --resume --log lines");
        check(&[], "-x", "plimsoll train --out ./-x --resume");
        check(&[], "~/x", "plimsoll train --out '~/x' --resume");
    }
}
