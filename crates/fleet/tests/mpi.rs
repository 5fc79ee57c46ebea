//! Processes that `mpirun` starts, on this machine.

#![cfg(feature = "mpi")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::env;
use std::process::Command;

use plimsoll_fleet::{Call, Fleet, FleetError, Mpi};

/// Tells a process that it is one of the ranks.
const RANK: &str = "PLIMSOLL_TEST_RANK";

/// More than go over at a time.
const MANY: usize = (1 << 22) + 3;

/// What each of the ranks does; without them, nothing.
#[test]
fn of_each_rank() {
    if env::var_os(RANK).is_none() {
        return;
    }
    let mut fleet = Mpi::join().unwrap();
    assert!(Mpi::join().is_err(), "a process joins once");
    let (own, n) = (fleet.rank(), fleet.n_ranks());
    assert_eq!(n, 4);
    assert_eq!(fleet.agree(&[u64::from(own), 9]).unwrap(), [0, 9, 1, 9, 2, 9, 3, 9]);
    let many: Vec<_> = (0..9).map(|it| 10 * u64::from(own) + it).collect();
    assert!(fleet.agree(&many).unwrap().into_iter().eq((0..4).flat_map(|rank| 10 * rank..10 * rank + 9)));
    assert_eq!(fleet.agree(&[]).unwrap(), [0; 0]);
    let mut values = vec![own as f32; MANY];
    fleet.sum(&mut values).unwrap();
    assert!(values.into_iter().all(|it| it.to_bits() == 6.0_f32.to_bits()));
    let mut bytes = vec![u8::try_from(own + 1).unwrap(); MANY];
    fleet.broadcast(&mut bytes).unwrap();
    assert!(bytes.into_iter().all(|it| it == 1));
    let mut values = vec![0.0; if own == 3 { 2 } else { 1 }];
    let differs = fleet.sum(&mut values).unwrap_err();
    if own == 0 {
        let (own, call) = (Call::Sum(1), Call::Sum(2));
        assert_eq!(differs, FleetError::Differs { own_rank: 0, own, rank: 3, call });
    }
    // What does not add up evenly is added in the order of the ranks, whoever adds it.
    for n_values in [1, 2, 4, 1_003] {
        let of = |rank: u32, at: usize| 1.0 / (rank as f32 + 3.0 + at as f32);
        let mut uneven: Vec<_> = (0..n_values).map(|at| of(own, at)).collect();
        fleet.sum(&mut uneven).unwrap();
        let expected = |at| (1..n).fold(of(0, at), |sum, rank| sum + of(rank, at)).to_bits();
        assert!(uneven.iter().enumerate().all(|(at, sum)| sum.to_bits() == expected(at)));
    }
    // Without that its end would be that of all.
    fleet.leave();
    assert_eq!((fleet.rank(), fleet.n_ranks()), (own, n), "known though MPI has ended");
}

/// Returns what starts four ranks.
fn mpirun() -> Command {
    let mut command = Command::new("mpirun");
    command.args(["-n", "4"]).env(RANK, "1");
    // Open MPI starts no more ranks than there are cores, and none for root, unless it is told to.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"] {
        command.env(name, "1");
    }
    command
}

#[test]
fn four_processes_do_things_together() {
    if env::var_os(RANK).is_some() {
        return;
    }
    if !mpirun().arg("true").status().is_ok_and(|it| it.success()) {
        eprintln!("skipped: `mpirun -n 4 true` fails here");
        return;
    }
    let output = mpirun().arg(env::current_exe().unwrap()).args(["--exact", "of_each_rank"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.matches("1 passed").count() == 4, "{text}");
}
