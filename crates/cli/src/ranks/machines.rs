//! The machines that ranks work on, of which one may be gone.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use plimsoll_train::Fleet;

use super::LAUNCHER;
use super::words::{numbers, text};

/// Numbers that hold a name: Linux lets one have 64 bytes.
const NUMBERS: usize = 8;

/// How long a machine may take to start a program: one that is gone answers nothing, and what asks it waits for minutes.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often those that are asked are looked after.
const PERIOD: Duration = Duration::from_millis(20);

/// Returns the machine of each rank, where there are several.
pub(crate) fn machines(fleet: &mut dyn Fleet) -> anyhow::Result<Vec<String>> {
    if fleet.n_ranks() == 1 {
        return Ok(Vec::new());
    }
    Ok(fleet.agree(&numbers::<NUMBERS>(&own_name()))?.chunks_exact(NUMBERS).map(text).collect())
}

fn own_name() -> String {
    let read = |path| fs::read_to_string(path).ok();
    let name = read("/proc/sys/kernel/hostname").or_else(|| env::var("HOSTNAME").ok());
    name.unwrap_or_default().trim().to_owned()
}

/// Machines, and how many ranks each has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machines(Vec<(String, u32)>);

impl Machines {
    /// Counts the ranks of each machine, given that of every rank.
    pub(crate) fn of(ranks: &[String]) -> Self {
        let mut counts: Vec<(String, u32)> = Vec::new();
        for rank in ranks {
            match counts.iter_mut().find(|it| it.0 == *rank) {
                Some((_, count)) => *count += 1,
                None => counts.push((rank.clone(), 1)),
            }
        }
        Self(counts)
    }

    /// Returns how many ranks they have together.
    pub(crate) fn n_ranks(&self) -> u32 {
        self.0.iter().map(|it| it.1).sum()
    }

    /// Asks each to start a program, where there are several, and returns those that do, and the names of the others.
    pub(crate) fn that_answer(&self) -> (Self, Vec<&str>) {
        if self.0.len() < 2 {
            return (self.clone(), Vec::new());
        }
        let end = Instant::now() + PATIENCE;
        let asked: Vec<_> = self.0.iter().map(|it| (it, ask(&it.0))).collect();
        let (there, gone): (Vec<_>, Vec<_>) =
            asked.into_iter().map(|(it, child)| (it, answers(child, end))).partition(|it| it.1);
        (Self(there.into_iter().map(|it| it.0.clone()).collect()), gone.into_iter().map(|it| it.0.0.as_str()).collect())
    }

    /// Returns what starts programs on them, and on no other.
    pub(super) fn launcher(&self) -> Command {
        let places: Vec<_> = self.0.iter().map(|(name, count)| format!("{name}:{count}")).collect();
        on(&places.join(","))
    }
}

/// Returns the launcher with the machines that it is to use, as MPICH and Open MPI take them.
fn on(machines: &str) -> Command {
    let mut command = Command::new(LAUNCHER);
    command.args(["-host", machines]);
    command
}

/// Starts a program on a machine that does nothing.
fn ask(machine: &str) -> Option<Child> {
    let mut command = on(machine);
    command.args(["-n", "1", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok()
}

/// Whether it came to its end in time.
fn answers(child: Option<Child>, end: Instant) -> bool {
    let Some(mut child) = child else { return false };
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < end => thread::sleep(PERIOD),
            Ok(Some(status)) => return status.success(),
            _ => {
                // One that has ended meanwhile needs no killing.
                drop(child.kill());
                drop(child.wait());
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_once_with_all_its_ranks() {
        let machines = Machines::of(&["a", "b", "a", "c"].map(str::to_owned));
        assert_eq!(machines.n_ranks(), 4);
        let command = machines.launcher();
        let args: Vec<_> = command.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
        assert_eq!(args, ["-host", "a:2,b:1,c:1"]);
    }
}
