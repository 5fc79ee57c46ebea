//! The command that uses an answer or a model, as it can be pasted into a shell.

use std::env;
use std::path::Path;

use crate::shell::{program, quoted};
use crate::values::JobName;

/// Flags that a search or a plan has and a run has not, and whether a value follows.
const NOT_OF_TRAIN: [(&str, bool); 7] = [
    ("--objective", true),
    ("--edge", true),
    ("--batch-max", true),
    ("--batch-reduction", true),
    ("--out", true),
    ("--epochs", true),
    ("--time", false),
];

/// Returns the command that trains as this one was asked to search or to plan, with these values of the configuration.
pub(crate) fn train_with(sets: &[String]) -> String {
    // The first is the program, and the second the command.
    let args = env::args_os().skip(2).map(|it| it.to_string_lossy().into_owned());
    of(&program(), args, sets)
}

/// Returns the command that uses the model of a run in a directory.
pub(crate) fn model_of(job: JobName, run: &Path) -> String {
    let (command, what) = match job {
        JobName::Sr => ("upscale", "IMAGE.."),
        JobName::Sequence | JobName::Multitask => ("predict", "FILE.."),
        JobName::Text => ("generate", "--prompt TEXT"),
    };
    format!("{} {command} {} {what}", program(), quoted(run.as_os_str()))
}

fn of(program: &str, mut args: impl Iterator<Item = String>, sets: &[String]) -> String {
    let mut words = vec![program.to_owned(), "train".to_owned()];
    while let Some(arg) = args.next() {
        let (flag, is_joined) = arg.split_once('=').map_or((&*arg, false), |(flag, _)| (flag, true));
        match NOT_OF_TRAIN.iter().find(|(other, _)| *other == flag) {
            None => words.push(quoted(arg.as_ref())),
            Some((_, takes_value)) if *takes_value && !is_joined => drop(args.next()),
            Some(_) => (),
        }
    }
    words.extend(sets.iter().flat_map(|set| ["--set".to_owned(), quoted(set.as_ref())]));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_knows_is_kept_and_quoted_and_what_it_does_not_know_is_left_out() {
        let check = |args: &[&str], expected: &str| {
            let args = args.iter().map(ToString::to_string);
            assert_eq!(of("plimsoll", args, &["batch.batch_size=9".to_owned()]), expected);
        };
        check(&[], "plimsoll train --set batch.batch_size=9");
        let all =
            ["--job", "text", "--objective", "throughput", "--edge=9", "--data", "my fables", "--time", "--out", "x"];
        check(&all, "plimsoll train --job text --data 'my fables' --set batch.batch_size=9");
        check(
            &["--set", "sr.blocks=1", "--batch-max", "9"],
            "plimsoll train --set sr.blocks=1 --set batch.batch_size=9",
        );
    }
}
