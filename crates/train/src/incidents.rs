//! The incidents of a run directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::run_dir::{RunDir, RunDirError};

/// Incidents that are kept besides the first, which often says what the others follow from.
///
/// 20: each holds the events of 200 to 400 steps, and a run that fails every few hundred shows by then how.
const KEPT: usize = 20;

/// The numbers of the incidents that are there; they go up for as long as the run goes on, through all of its processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Incidents(BTreeSet<u32>);

impl Incidents {
    /// Looks, once, for those that earlier processes have left.
    pub(crate) fn of(run_dir: &Path) -> Self {
        let names = fs::read_dir(run_dir).into_iter().flatten().flatten().map(|it| it.file_name());
        let number = |name: std::ffi::OsString| -> Option<u32> {
            name.to_str()?.strip_prefix("incident-")?.strip_suffix(".json")?.parse().ok()
        };
        Self(names.filter_map(number).collect())
    }

    /// Writes one more, and deletes what is neither the first nor one of the newest.
    ///
    /// # Errors
    ///
    /// [`RunDirError`] when it cannot be written.
    pub(crate) fn write(&mut self, dir: &RunDir, text: &str) -> Result<(), RunDirError> {
        let number = self.0.last().map_or(1, |it| it.saturating_add(1));
        dir.write(&name(number), text.as_bytes())?;
        self.0.insert(number);
        while KEPT + 1 < self.0.len() {
            let Some(old) = self.0.iter().nth(1).copied() else { break };
            self.0.remove(&old);
            // One that cannot be deleted is in nobody's way.
            drop(fs::remove_file(dir.path().join(name(old))));
        }
        Ok(())
    }
}

fn name(number: u32) -> String {
    format!("incident-{number}.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::Existing;

    #[test]
    fn the_first_and_the_newest_are_kept_and_the_numbers_go_up() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::open(folder.path(), Existing::Refuse).unwrap();
        let kept = || Incidents::of(folder.path()).0.into_iter().collect::<Vec<_>>();
        let mut incidents = Incidents::of(folder.path());
        for n in 1..=21 {
            incidents.write(&dir, &n.to_string()).unwrap();
        }
        assert_eq!(kept(), (1..=21).collect::<Vec<_>>());
        // Another process goes on with the numbers.
        let mut incidents = Incidents::of(folder.path());
        for n in 22..=50 {
            incidents.write(&dir, &n.to_string()).unwrap();
        }
        assert_eq!(kept(), [1].into_iter().chain(31..=50).collect::<Vec<_>>());
        assert_eq!(fs::read_to_string(folder.path().join("incident-50.json")).unwrap(), "50");
        assert_eq!(fs::read_to_string(folder.path().join("incident-1.json")).unwrap(), "1");
    }
}
