//! The command that goes on with a run, as it can be pasted into a shell.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use crate::args::TrainArgs;

/// How the program was called, where that was not by its own name: `cargo xtask` sets it.
const CALLED_AS: &str = "PLIMSOLL_CALLED_AS";

/// Returns the command that goes on with the run in a directory; what else it was given stands in its configuration.
pub(crate) fn command(args: &TrainArgs, out: &Path) -> String {
    let program = match env::var(CALLED_AS) {
        Ok(called_as) => called_as,
        Err(_) => env::args_os().next().map_or_else(|| "plimsoll".to_owned(), |it| quoted(&it)),
    };
    of(&program, args, out)
}

fn of(program: &str, args: &TrainArgs, out: &Path) -> String {
    let mut words = vec![program.to_owned(), "train".to_owned(), "--out".to_owned(), quoted(out.as_os_str())];
    words.push("--resume".to_owned());
    // The device decides what `cargo xtask` builds in.
    if let Some(device) = args.config.device() {
        words.extend(["--device".to_owned(), quoted(device.as_ref())]);
    }
    if args.no_supervise {
        words.push("--no-supervise".to_owned());
    }
    words.join(" ")
}

/// Quotes a word for a shell, where it needs that.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
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
        check(&[], "~/x", "plimsoll train --out '~/x' --resume");
    }

    #[cfg(unix)]
    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        for word in ["a b", "it's", "\"", "$HOME", "`ls`", "\\", "*", "a\nb", "", "é\u{301}", "!x", "#"] {
            let script = format!("printf %s {}", quoted(word.as_ref()));
            let read = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&read.stdout), word);
        }
    }
}
