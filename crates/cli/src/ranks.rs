//! The ranks of a run: processes that a launcher has started, or the devices of this process.

mod beside;
mod machines;
mod place;
mod reduction;
mod version;
mod words;

pub(crate) use self::beside::{Common, Other, fit_beside};
pub(crate) use self::machines::{Machines, machines};
use self::place::{device_of, own_cores};

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, thread};

use plimsoll_fleet::fingerprint;
use plimsoll_probe::DeviceKind;
use plimsoll_train::{Alone, Existing, Fleet, RunDir, RunDirError, TrainError};
use plimsoll_types::Bytes;

use crate::args::TrainArgs;
use crate::beat::Beat;
use crate::exit::user_error;
use crate::harness::Harness;
use crate::runs::default_out;
use crate::say::as_rank;
use crate::settings::Settings;
use crate::values::Reduction;

/// The variables in which launchers say how many processes they have started: MPICH and its relatives, and Open MPI.
const SIZES: [&str; 2] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"];

/// Those in which they say which of them a process is.
const RANKS: [&str; 4] = ["PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// What Slurm says to every process, and what it says only to one that talks to the others.
const SLURM_SIZE: &str = "SLURM_NTASKS";
const SLURM_TALKS: [&str; 2] = ["PMIX_RANK", "PMI_RANK"];

/// Starts ranks.
const LAUNCHER: &str = "mpirun";

/// Returns how many ranks a launcher has started, this process among them, where there are several.
pub(crate) fn launched() -> Option<u32> {
    launched_as(|name| env::var(name).ok())
}

fn launched_as(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let number = |name: &str| variable(name)?.trim().parse().ok();
    let by_slurm = || SLURM_TALKS.iter().any(|it| variable(it).is_some()).then(|| number(SLURM_SIZE))?;
    SIZES.into_iter().find_map(number).or_else(by_slurm).filter(|n| 1 < *n)
}

/// Joins the other ranks, where there are any, and tells from then on as this one.
///
/// # Errors
///
/// A user's error where they are of another version, or this build has none.
pub(crate) fn join() -> anyhow::Result<Box<dyn Fleet>> {
    let Some(n) = launched() else { return Ok(Box::new(Alone)) };
    // Until all have started nobody knows it otherwise.
    RANKS.into_iter().find_map(|it| env::var(it).ok()?.trim().parse().ok()).into_iter().for_each(as_rank);
    let beat = Beat::start("waiting");
    beat.at("for all ranks to start", 0, 0);
    let mut fleet = join_mpi(n)?;
    as_rank(fleet.rank());
    version::agree_on(version::VERSION, &mut *fleet)?;
    Ok(fleet)
}

#[cfg(feature = "mpi")]
fn join_mpi(_n: u32) -> anyhow::Result<Box<dyn Fleet>> {
    Ok(Box::new(plimsoll_fleet::Mpi::join()?))
}

#[cfg(not(feature = "mpi"))]
fn join_mpi(n: u32) -> anyhow::Result<Box<dyn Fleet>> {
    let how = "`cargo build --release -p plimsoll-cli --features mpi` builds it in";
    Err(user_error(format!("train on {n} ranks: this build leaves MPI out; {how}")).into())
}

/// Returns the command that starts so many ranks of this program, on those machines where any are named.
///
/// # Errors
///
/// A user's error where this build, or this machine, has none.
pub(crate) fn launcher(n: u32, machines: Option<&Machines>) -> anyhow::Result<Command> {
    if !cfg!(feature = "mpi") {
        join_mpi(n).map(drop)?;
    }
    let is_there = |folder: PathBuf| folder.join(LAUNCHER).is_file();
    if !env::split_paths(&env::var_os("PATH").unwrap_or_default()).any(is_there) {
        let what = format!("start {n} ranks: `{LAUNCHER}` is not on the path; install MPICH or Open MPI");
        return Err(user_error(what).into());
    }
    let mut command = machines.map_or_else(|| Command::new(LAUNCHER), Machines::launcher);
    command.arg("-n").arg(machines.map_or(n, Machines::n_ranks).to_string()).arg(env::current_exe()?);
    Ok(command)
}

/// Returns the run directory, which the first rank chooses where it is not named.
pub(crate) fn out(fleet: &mut dyn Fleet, args: &TrainArgs, existing: Existing) -> anyhow::Result<PathBuf> {
    let own = match &args.out {
        Some(out) => out.clone(),
        None if fleet.rank() == 0 => default_out(existing)?,
        None => PathBuf::new(),
    };
    if fleet.n_ranks() == 1 {
        return Ok(own);
    }
    let bytes = fleet.first_says(own.as_os_str().as_encoded_bytes())?;
    // It was made of such bytes, by the same program on the same kind of system.
    Ok(PathBuf::from(text(bytes)))
}

#[cfg(unix)]
fn text(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn text(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Opens what of the run directory is a rank's own: all of it the first one's, which comes before the others.
pub(crate) fn open_dir(
    fleet: &mut dyn Fleet,
    out: &Path,
    existing: Existing,
    on_wait: &mut dyn FnMut(&RunDirError),
) -> anyhow::Result<RunDir> {
    let run_dir = |it: Result<RunDir, RunDirError>| it.map_err(TrainError::from);
    let own = if fleet.rank() == 0 { Some(run_dir(RunDir::open_waiting(out, existing, on_wait))?) } else { None };
    if fleet.n_ranks() == 1 {
        return own.ok_or_else(|| unreachable!("it is the first"));
    }
    fleet.agree(&[0])?;
    let own = own.map_or_else(|| run_dir(RunDir::of_rank(out, fleet.rank(), existing)), Ok);
    // The first does not undo all of it while another makes its own folder there.
    let failed = fleet.agree(&[own.is_err().into()])?;
    match (0..).zip(failed).find(|it| it.1 == 1) {
        Some((rank, _)) if own.is_ok() => {
            Err(user_error(format!("write to {}: rank {rank} cannot, as it says", out.display())).into())
        }
        _ => Ok(own?),
    }
}

/// What the others have to say and to undo, of a run that does not begin, takes no longer.
const PARTING: Duration = Duration::from_secs(1);

/// Waits before a process ends with an error, where it is one of several ranks: their launcher then ends all of them at once.
pub(crate) fn let_others_part() {
    if launched().is_some() {
        thread::sleep(PARTING);
    }
}

/// Returns the settings of this rank: its own device of a list, and its part of a device, and of the cores, that it shares with
/// other processes.
///
/// # Errors
///
/// A user's error where the devices are not one for each rank or for each of a machine, or ranks share one that NCCL is to add on.
pub(crate) fn own_settings(
    fleet: &mut dyn Fleet,
    settings: &Settings,
    machines: &[String],
    harness: &dyn Harness,
) -> anyhow::Result<Settings> {
    let n_devices = settings.devices().len();
    if fleet.n_ranks() == 1 {
        let twice = |at: usize| settings.devices()[..at].iter().any(|it| it.0 == settings.devices()[at].0);
        return match (0..n_devices).find(|at| twice(*at)) {
            Some(at) => refuse_sharing(settings, settings.devices()[at].0).map(|()| settings.clone()),
            None => Ok(settings.clone()),
        };
    }
    let rank = fleet.rank() as usize;
    let own = if n_devices == 1 { settings.clone() } else { settings.only(device_of(rank, machines, n_devices)?) };
    let (kind, set) = own.devices()[0];
    let (device, cores) = (fingerprint(&kind.to_string()), own_cores().unwrap_or(u64::MAX));
    let told = fleet.agree(&[device, set.map_or(u64::MAX, |it| it.0), cores])?;
    let own_machine = machines.get(rank);
    let beside: Vec<_> =
        told.chunks_exact(3).zip(machines).filter(|it| Some(it.1) == own_machine).map(|it| it.0).collect();
    let (of_rest, set_for): (Vec<_>, Vec<_>) =
        beside.iter().filter(|it| it[0] == device).map(|it| it[1]).partition(|it| *it == u64::MAX);
    let (n_sharing, is_shared) = (of_rest.len() as u64, 1 < of_rest.len() + set_for.len());
    let left = |all: Bytes| set_for.iter().fold(all, |left, it| left.saturating_sub(Bytes(*it)));
    if is_shared {
        refuse_sharing(settings, kind)?;
    }
    let share = match set {
        None if is_shared => Some(Bytes(left(harness.open(&[(kind, None)], 0)?.capacity()?).0 / n_sharing)),
        _ => None,
    };
    if let Some(share) = share {
        eprintln!("device      {kind} is shared by {} ranks, this one with {share}", n_sharing + set_for.len() as u64);
    }
    let on_cores = if cores == u64::MAX { 1 } else { beside.iter().filter(|it| it[2] == cores).count() };
    Ok(own.beside(u32::try_from(on_cores).unwrap_or(u32::MAX), share))
}

/// Refuses a device of several ranks where they are to add on it.
fn refuse_sharing(settings: &Settings, kind: DeviceKind) -> anyhow::Result<()> {
    if settings.train.reduction != Reduction::Nccl {
        return Ok(());
    }
    let what = format!("add by NCCL, as `train.reduction` says: {kind} is the device of several ranks");
    Err(user_error(format!("{what}; name one for each rank, or let it be \"host\"")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Option<u32>) {
        let of = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
        assert_eq!(launched_as(of), expected, "{variables:?}");
    }

    #[test]
    fn each_launcher_says_how_many_ranks_there_are() {
        check(&[], None);
        check(&[("PMI_RANK", "2"), ("PMI_SIZE", "4")], Some(4));
        check(&[("OMPI_COMM_WORLD_SIZE", "2")], Some(2));
        check(&[("PMI_SIZE", "1")], None);
        check(&[("SLURM_NTASKS", "8"), ("PMIX_RANK", "3")], Some(8));
        // A job of Slurm in which this program is one of several that know nothing of each other.
        check(&[("SLURM_NTASKS", "8")], None);
        check(&[("PMI_SIZE", "many")], None);
    }
}
