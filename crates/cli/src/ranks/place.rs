//! What each of several processes has of its machine: one of the devices, and a part of the cores.

use std::fs;

use plimsoll_fleet::fingerprint;
use plimsoll_train::told_threads;

use crate::exit::{UserError, user_error};

/// Returns which of the devices that are named is that of a rank: the one at its number where there is one for each rank, or at
/// its place among the ranks of its machine where there are fewer.
///
/// # Errors
///
/// [`UserError`] where there are more devices than ranks, or fewer than a machine has ranks.
pub(super) fn device_of(rank: usize, machines: &[String], n_devices: usize) -> Result<usize, UserError> {
    let n_ranks = machines.len();
    let refused = |why: &str| {
        let what = format!("train on {n_ranks} ranks: `device` names {n_devices} devices{why}");
        Err(user_error(format!("{what}; name one for each rank, one for each of a machine, or one for all")))
    };
    if n_devices == 1 {
        return Ok(0);
    }
    if n_devices == n_ranks {
        return Ok(rank);
    }
    if n_ranks < n_devices {
        return refused("");
    }
    let on = |machine: &String| machines.iter().filter(|it| *it == machine).count();
    if let Some(machine) = machines.iter().find(|it| n_devices < on(it)) {
        return refused(&format!(", and {machine} has {} ranks", on(machine)));
    }
    Ok(machines[..rank].iter().filter(|it| **it == machines[rank]).count())
}

/// Returns a number that is the same for all processes of a machine that may use the same cores, and for no other; `None` where
/// a process was told how many threads it has, which are its own.
pub(super) fn own_cores() -> Option<u64> {
    let status = || fs::read_to_string("/proc/self/status").unwrap_or_default();
    told_threads().is_none().then(|| fingerprint(&cores(&status())))
}

fn cores(status: &str) -> Option<&str> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(machines: &[&str], n_devices: usize, expected: &[usize]) {
        let machines: Vec<_> = machines.iter().map(|it| (*it).to_owned()).collect();
        let places: Vec<_> = (0..machines.len()).map(|rank| device_of(rank, &machines, n_devices).unwrap()).collect();
        assert_eq!(places, expected, "{machines:?}");
    }

    #[test]
    fn a_list_of_devices_is_that_of_all_ranks_or_of_each_machine() {
        check(&["a", "a", "b", "b"], 4, &[0, 1, 2, 3]);
        check(&["a", "a", "b", "b"], 2, &[0, 1, 0, 1]);
        check(&["a", "b", "a", "b"], 2, &[0, 0, 1, 1]);
        check(&["a", "a", "b"], 2, &[0, 1, 0]);
        check(&["a", "a", "b"], 1, &[0, 0, 0]);
        check(&["a", "b"], 2, &[0, 1]);
    }

    #[test]
    fn too_few_devices_for_a_machine_and_too_many_for_all_are_refused() {
        let of = |n_devices| device_of(0, &["a", "b", "b", "b"].map(str::to_owned), n_devices).unwrap_err().to_string();
        let how = "; name one for each rank, one for each of a machine, or one for all";
        assert_eq!(of(2), format!("train on 4 ranks: `device` names 2 devices, and b has 3 ranks{how}"));
        assert_eq!(of(5), format!("train on 4 ranks: `device` names 5 devices{how}"));
    }

    #[test]
    fn the_cores_of_a_process_are_read_as_the_kernel_writes_them() {
        assert_eq!(cores("Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"), Some("0-1"));
    }
}
