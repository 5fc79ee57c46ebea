//! Run directories that nobody has named.

use std::path::{Path, PathBuf};

use plimsoll_train::{EVENTS_FILE, Existing};

use crate::exit::user_error;

/// The folder of run directories, where none is named.
const RUNS: &str = "runs";

/// Returns the run directory after all that there are, or the last one with a run to resume.
pub(crate) fn default_out(existing: Existing) -> anyhow::Result<PathBuf> {
    choose(Path::new(RUNS), existing)
}

fn choose(runs: &Path, existing: Existing) -> anyhow::Result<PathBuf> {
    let mut numbers = numbers(runs);
    if existing != Existing::Resume {
        let last = numbers.into_iter().max().unwrap_or(0);
        return Ok(path(runs, last.saturating_add(1)));
    }
    numbers.retain(|n| path(runs, *n).join(EVENTS_FILE).is_file());
    let none = || user_error(format!("resume: there is no run in {}/; name one with `--out DIR`", runs.display()));
    Ok(path(runs, numbers.into_iter().max().ok_or_else(none)?))
}

/// Returns the numbers of all run directories.
fn numbers(runs: &Path) -> Vec<u32> {
    let names = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("run-")?.parse().ok().filter(|n| path(runs, *n).ends_with(name));
    names.filter_map(|it| number(it.file_name().to_str()?)).collect()
}

fn path(runs: &Path, n: u32) -> PathBuf {
    runs.join(format!("run-{n:04}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_gap_among_the_runs_hides_none_and_is_not_filled() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let chosen = |existing| choose(&runs, existing).map(|it| it.file_name().unwrap().to_owned());
        assert_eq!(chosen(Existing::Refuse).unwrap(), "run-0001");
        let error = chosen(Existing::Resume).unwrap_err().to_string();
        assert!(error.contains("there is no run in") && error.contains("--out DIR"), "{error}");
        for name in ["run-0002", "run-0009", "run-10000", "run-7", "run-20000x", "other"] {
            fs::create_dir_all(runs.join(name)).unwrap();
        }
        // A directory whose run was never begun is not resumed, and not taken either.
        assert!(chosen(Existing::Resume).is_err());
        for name in ["run-0002", "run-0009", "run-7"] {
            fs::write(runs.join(name).join(EVENTS_FILE), "").unwrap();
        }
        assert_eq!(chosen(Existing::Resume).unwrap(), "run-0009");
        assert_eq!(chosen(Existing::Refuse).unwrap(), "run-10001");
    }
}
