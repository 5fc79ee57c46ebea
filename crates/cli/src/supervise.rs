//! `plimsoll train` looks after the process that trains, and starts it again when it dies.

mod process;
mod standing;
mod verdict;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::{env, fs};

use plimsoll_probe::Refusal;
use plimsoll_train::{Death, REFUSAL_FILE, RunDir};
use plimsoll_types::{Bytes, Knobs};

use self::process::{Process, listen, this_program};
use self::standing::{Standing, identity, machines_of};
use self::verdict::{Ended, Verdict};
use crate::args::TrainArgs;
use crate::beat::Beat;
use crate::exit::{signalled, user_error};
use crate::ranks::{Machines, launcher};
use crate::say::show;
use crate::settings::Settings;
use crate::worker::{DEATH, WORKER, oom_kills};

/// Runs the training in a worker until one ends by itself, or too many have died without a new checkpoint.
pub(crate) fn supervise(args: &TrainArgs, out: &Path, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut signals = listen()?;
    let mut run = Run::new(args, out);
    loop {
        let before = oom_kills();
        let mut command = run.command()?;
        let (status, asked) = Process::start(&mut command, args.ranks.is_some())?.wait(&mut signals)?;
        let how = if args.ranks.is_some() { Ended::of_launcher(status) } else { Ended::of(status) };
        let ended = match (how, asked) {
            (None, _) => return Ok(code_of(status)),
            // A launcher that came to nothing has said why.
            (Some(Ended::Lost(_)), None) if !run.has_begun() => return Ok(code_of(status)),
            // Whoever asked for the end does not want another beginning.
            (Some(_), Some(signal)) => return Ok(ExitCode::from(signalled(signal))),
            (Some(ended), None) => ended,
        };
        let (rank, refusal) = take_refusal(out, args.ranks.unwrap_or(1));
        let verdict = Verdict::of(ended, refusal, before, oom_kills());
        run.count(ended, rank, &verdict);
        if run.is_stuck() {
            return Err(user_error(run.too_large(&verdict)).into());
        }
        if u32::try_from(run.deaths.len()).is_ok_and(|n| settings.train.max_restarts < n) {
            return Err(anyhow::anyhow!(run.report(&verdict)));
        }
        run.announce(&verdict);
        if args.ranks.is_some() && !verdict.is_memory() {
            run.look_for_machines();
        }
    }
}

fn code_of(status: ExitStatus) -> ExitCode {
    ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}

/// A run whose workers die.
struct Run<'a> {
    args: &'a TrainArgs,
    out: &'a Path,
    /// The log that was there before the first worker.
    first_log: Option<(u64, u64)>,
    /// The log of the last checkpoint.
    log: Option<(u64, u64)>,
    /// The last checkpoint.
    reached: Option<u64>,
    /// The deaths since then.
    deaths: Vec<Death>,
    /// Where the run stood at each of them, and the least capacity that was taught before it.
    places: Vec<(Standing, Option<Bytes>)>,
    /// The least capacity that any death has taught.
    least: Option<Bytes>,
    /// The machines that the ranks began on, where a launcher has chosen them.
    all_machines: Option<Machines>,
    /// Those that are left, where not all are.
    machines: Option<Machines>,
}

impl<'a> Run<'a> {
    fn new(args: &'a TrainArgs, out: &'a Path) -> Self {
        let (first_log, deaths, places) = (identity(out), Vec::new(), Vec::new());
        let (reached, least, all_machines, machines) = (None, None, None, None);
        let mut run = Self { args, out, first_log, log: None, reached, deaths, places, least, all_machines, machines };
        let (log, standing) = run.standing();
        (run.log, run.reached) = (log, standing.checkpoint);
        run
    }

    /// Returns the command of the next worker: this program with the same arguments, but that a run which has begun
    /// goes on.
    fn command(&self) -> anyhow::Result<Command> {
        let mut command = match self.args.ranks {
            Some(n) => launcher(n, self.machines.as_ref())?,
            None => this_program()?,
        };
        let goes_on = !self.args.resume && self.has_begun();
        command.args(env::args_os().skip(1).filter(|it| !goes_on || it != &OsString::from("--overwrite")));
        if goes_on {
            command.arg("--resume");
        }
        if self.args.out.is_none() {
            command.arg("--out").arg(self.out);
        }
        command.env(WORKER, "1");
        if let Some(death) = self.death() {
            command.env(DEATH, serde_json::to_string(&death)?);
        }
        Ok(command)
    }

    /// Leaves out the machines that do not answer, until they do, where others are left.
    fn look_for_machines(&mut self) {
        let all = self.all_machines.get_or_insert_with(|| Machines::of(&machines_of(self.out)));
        let beat = Beat::start("asking the machines");
        let (there, gone) = all.that_answer();
        drop(beat);
        self.machines = None;
        if !gone.is_empty() && 0 < there.n_ranks() {
            let (n, of) = (there.n_ranks(), all.n_ranks());
            eprintln!("warning: {} does not answer: going on with {n} of {of} ranks", gone.join(", "));
            self.machines = Some(there);
        }
    }

    /// Whether a worker has begun a log: not one that it was to overwrite, and did not come to.
    fn has_begun(&self) -> bool {
        let log = identity(self.out);
        log.is_some() && log != self.first_log
    }

    /// Returns which log is this run's: not that of another one in its place, which is to be overwritten.
    fn own_log(&self) -> Option<(u64, u64)> {
        identity(self.out).filter(|_| self.args.resume || self.has_begun())
    }

    /// Returns which log is this run's, and where that stands; one that has not begun stands nowhere.
    fn standing(&self) -> (Option<(u64, u64)>, Standing) {
        let log = self.own_log();
        (log, log.map_or_else(Standing::default, |_| Standing::of(self.out)))
    }

    /// Notes how a worker died, and which rank where that is known; a new checkpoint makes the deaths before it bygones.
    fn count(&mut self, ended: Ended, rank: Option<u32>, verdict: &Verdict) {
        let (log, mut standing) = self.standing();
        if let Some(rank) = rank.filter(|it| 0 < *it && standing.step.is_some()) {
            // Each rank has knobs and memory of its own.
            let own = Standing::of(&RunDir::path_of_rank(self.out, rank));
            standing = Standing { checkpoint: standing.checkpoint, ..own };
        }
        let Standing { step, rung, capacity, checkpoint, .. } = standing;
        if log != self.log {
            // What another run has reached says nothing of this one.
            (self.log, self.reached) = (log, None);
        }
        if self.reached < checkpoint {
            self.reached = checkpoint;
            self.deaths.clear();
            self.places.clear();
        }
        self.places.push((standing, self.least));
        let place = step.map_or("before its first step".to_owned(), |step| format!("after step {step}"));
        let who = rank.filter(|_| self.args.ranks.is_some()).map_or_else(String::new, |it| format!("rank {it} "));
        let what = format!("{who}{ended} {place}; {verdict}");
        let capacity = match verdict {
            // The line is where it was, and the next worker knows it.
            Verdict::Refused(Refusal { line: Some(_), .. }) => None,
            Verdict::Refused(Refusal { held, .. }) => Some(*held),
            // A lower rung was not enough.
            Verdict::GroupFull | Verdict::MachineFull if self.deaths.iter().any(|it| it.of_memory) => {
                capacity.map(|it| Bytes(it.0 / 2))
            }
            _ => None,
        };
        // What is held before the first step is not what steps have.
        let capacity = capacity.filter(|_| step.is_some());
        self.least = self.least.into_iter().chain(capacity).min();
        let (of_memory, is_unexplained) = (verdict.is_memory(), !verdict.is_memory() && ended.may_be_of_memory());
        self.deaths.push(Death { what, of_memory, is_unexplained, rung, rank, capacity });
    }

    /// Returns what the next worker is to know: the last death, and the lowest rung of those that died of memory, which
    /// the checkpoint before them knows nothing of.
    fn death(&self) -> Option<Death> {
        let work = |rung: Knobs| u64::from(rung.micro_batch_size) * u64::from(rung.patch_size).pow(2);
        let of_memory = || self.deaths.iter().filter(|it| it.of_memory);
        let Death { what, is_unexplained, .. } = self.deaths.last()?.clone();
        Some(Death {
            what,
            is_unexplained,
            // What two of them died of all are told.
            rank: self.deaths.first()?.rank.filter(|it| self.deaths.iter().all(|death| death.rank == Some(*it))),
            of_memory: of_memory().next().is_some(),
            rung: of_memory().filter_map(|it| it.rung).min_by_key(|it| work(*it)),
            capacity: self.least,
        })
    }

    /// Whether the last two have died of memory at one place: whatever was lowered after the first did not help, and
    /// nothing is left to be lowered.
    fn is_stuck(&self) -> bool {
        let of_memory = self.deaths.iter().rev().take(2).all(|it| it.of_memory);
        of_memory && self.places.iter().rev().take(2).is_sorted_by(|a, b| a == b) && 2 <= self.places.len()
    }

    /// Says what does not fit, and what would help.
    fn too_large(&self, verdict: &Verdict) -> String {
        let deaths = self.deaths.iter().fold(String::new(), |list, it| list + "\n  " + &it.what);
        let capacity = match verdict {
            Verdict::Refused(Refusal { asked, held, line: Some(_), .. }) => {
                format!("a capacity well above {}, ", held.saturating_add(*asked))
            }
            _ => String::new(),
        };
        format!(
            "finish the run: its workers died of memory at the same place, and there is nothing smaller to go on \
             with:{deaths}\nwhat would help: {capacity}shorter samples or smaller patches, gradient checkpointing or a \
             smaller model; `--resume` goes on at step {}",
            self.reached.unwrap_or(0)
        )
    }

    /// Says in one line that a worker has died, and where the next one begins.
    fn announce(&self, verdict: &Verdict) {
        let what = self.deaths.last().map_or("", |it| &it.what);
        let from = self.reached.unwrap_or(0);
        let rung = if verdict.is_memory() { ", lower" } else { "" };
        show("\n");
        eprintln!("warning: worker {what}: starting again at step {from}{rung}");
    }

    /// Says why there is no further attempt, and what would help.
    fn report(&self, verdict: &Verdict) -> String {
        let deaths = self.deaths.iter().fold(String::new(), |list, it| list + "\n  " + &it.what);
        let n = self.deaths.len();
        let help = if verdict.is_memory() {
            "a smaller capacity than what was there, gradient checkpointing, a smaller patch or a smaller model"
        } else {
            "what its last lines above say; `--no-supervise` runs it without another attempt"
        };
        let from = self.reached.unwrap_or(0);
        format!(
            "finish the run: its worker died {n} times without a new checkpoint:{deaths}\nwhat would help: {help}; \
             `--resume` goes on at step {from}"
        )
    }
}

/// Takes what a rank has noted, and which it was, so that it is not taken for the next one's.
fn take_refusal(out: &Path, n_ranks: u32) -> (Option<u32>, Option<Refusal>) {
    let take = |rank| {
        let path = RunDir::path_of_rank(out, rank).join(REFUSAL_FILE);
        let text = fs::read_to_string(&path).ok()?;
        drop(fs::remove_file(path));
        Some((Some(rank).filter(|_| 1 < n_ranks), text.parse().ok()?))
    };
    let mut taken: Vec<_> = (0..n_ranks).filter_map(take).collect();
    if taken.is_empty() { (None, None) } else { (taken[0].0, Some(taken.swap_remove(0).1)) }
}
