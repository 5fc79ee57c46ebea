//! One round: a whole training under its faults.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::kind::Kind;
use crate::plan::{Moment, Outside, Plan};
use crate::process::{Order, Process};
use crate::watch::{Watch, now};
use crate::{Failed, Place, damage, signals};

/// A program that was started more often than this gets nowhere.
const MOST_STARTS: u64 = 40;

/// What happened in a round.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) run: PathBuf,
    /// Faults that happened, each with its moment in milliseconds.
    pub(crate) faults: Vec<(Kind, u64)>,
    /// How often the program was started again.
    pub(crate) restarts: u64,
    pub(crate) watch: Watch,
    /// Why the run did not finish.
    pub(crate) trouble: Option<String>,
}

impl Course {
    /// Returns what each fault cost, in milliseconds and in steps; `None` where the run had another to get over at the same
    /// time, or where there was nothing left to do.
    pub(crate) fn costs(&self) -> impl Iterator<Item = (Kind, Option<(u64, u64)>)> {
        let cost = |millis: u64| self.watch.cost(millis);
        let span = move |millis: u64| millis..=millis + cost(millis).map_or(0, |it| it.0);
        self.faults.iter().map(move |(kind, millis)| {
            let own = span(*millis);
            let meets = |it: &&(Kind, u64)| {
                let other = span(it.1);
                own.start() <= other.end() && other.start() <= own.end()
            };
            // It meets itself.
            let is_alone = self.faults.iter().filter(meets).count() == 1;
            (*kind, cost(*millis).filter(|_| is_alone))
        })
    }
}

/// Trains under the faults of a plan in a folder of its own.
pub(crate) fn run(place: &Place, plan: &Plan, folder: &Path) -> Result<Course, Failed> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    plan.setting.subject.write_data(&folder.join("data"))?;
    let run = folder.join("run");
    let mut round = Round {
        place,
        plan,
        folder,
        outside: plan.outside.iter().copied().collect(),
        used: 0,
        course: Course { watch: Watch::new(&run), run, faults: Vec::new(), restarts: 0, trouble: None },
    };
    while round.process()? {
        round.course.restarts += 1;
        if MOST_STARTS <= round.course.restarts {
            round.course.trouble = Some(format!("it was started {MOST_STARTS} times"));
            break;
        }
    }
    Ok(round.course)
}

struct Round<'a> {
    place: &'a Place,
    plan: &'a Plan,
    folder: &'a Path,
    outside: VecDeque<Outside>,
    /// Faults inside the process that have happened.
    used: usize,
    course: Course,
}

impl Round<'_> {
    /// Runs one process to its end; returns whether another is to go on.
    fn process(&mut self) -> Result<bool, Failed> {
        let full_disk = self.outside.pop_front_if(|it| it.kind == Kind::FullDisk);
        let file_limit = full_disk.map(|it| self.file_limit(it.dice));
        let mut process = Process::start(&self.order(file_limit))?;
        if let Some(status) = self.disturb(&mut process)? {
            return self.judge(status, full_disk.is_some());
        }
        self.take_used()?;
        Ok(true)
    }

    fn order(&self, file_limit: Option<u64>) -> Order<'_> {
        let run = &self.course.run;
        let mut args = self.plan.setting.args(&self.folder.join("data"), run);
        if run.join("events.jsonl").is_file() {
            args.push("--resume".to_owned());
        }
        let faults = Some(self.plan.variable(&self.folder.join("used.jsonl")));
        Order { program: &self.place.program, args, faults, file_limit, words: self.folder, stop: &self.place.stop }
    }

    /// Some blocks of 512 bytes more than the log has, which meets the limit soon; but not less than the decoded images of
    /// `sr` take.
    fn file_limit(&self, dice: u64) -> u64 {
        let log = fs::metadata(self.course.run.join("events.jsonl")).map_or(0, |it| it.len());
        (log / 512).max(75) + 1 + dice % 24
    }

    /// Lets the faults from outside happen, one after another; returns how the process ended by itself.
    fn disturb(&mut self, process: &mut Process) -> Result<Option<ExitStatus>, Failed> {
        // A full disk is there before the process is.
        while let Some(fault) = self.outside.pop_front_if(|it| it.kind != Kind::FullDisk) {
            if let Some(status) = self.wait(process, fault.moment)? {
                self.outside.push_front(fault);
                return Ok(Some(status));
            }
            self.course.faults.push((fault.kind, now()));
            match fault.kind {
                Kind::KillWorker if process.kill_worker()? => continue,
                Kind::Interrupt | Kind::Terminate => {
                    let (name, code) = if fault.kind == Kind::Interrupt { ("INT", 130) } else { ("TERM", 143) };
                    process.signal(name)?;
                    return self.end_of_signal(process, code);
                }
                Kind::KillWorker => (),
                _ => drop(process.kill_all()?),
            }
            let _ = process.wait(|_| false)?;
            match fault.kind {
                Kind::DamagedCheckpoint => damage::damage_newest(&self.course.run, fault.dice)?,
                Kind::VanishedFile => self.start_without_a_file(fault.dice)?,
                _ => (),
            }
            return Ok(None);
        }
        let course = &mut self.course;
        let status = process.wait(|_| {
            course.watch.look();
            false
        });
        Ok(status?)
    }

    fn wait(&mut self, process: &mut Process, moment: Moment) -> io::Result<Option<ExitStatus>> {
        let watch = &mut self.course.watch;
        let mut reached = None;
        process.wait(|process| {
            let steps = watch.look();
            match moment {
                Moment::AfterStart(millis) => Duration::from_millis(millis) <= process.age(),
                Moment::AfterStep(step, millis) => {
                    if step <= steps && reached.is_none() {
                        reached = Some(process.age());
                    }
                    reached.is_some_and(|it| it + Duration::from_millis(millis) <= process.age())
                }
            }
        })
    }

    /// Waits for the end after a signal, which comes in good order, unless the run was complete by then.
    fn end_of_signal(&mut self, process: &mut Process, code: i32) -> Result<Option<ExitStatus>, Failed> {
        let status = process.wait(|_| false)?;
        self.course.watch.look();
        match status {
            // A signal that came before anybody listened.
            Some(status) if status.code() == Some(code) || signals::of(status) == Some(code - 128) => Ok(None),
            status => Ok(status),
        }
    }

    /// Says whether the run goes on after a process that ended by itself.
    fn judge(&mut self, status: ExitStatus, is_disk_full: bool) -> Result<bool, Failed> {
        self.course.watch.look();
        let ends_the_run = self.take_used()?.iter().any(|it| it.may_end_the_run() || !self.place.is_supervised);
        if status.success() || self.course.trouble.is_some() {
            return Ok(false);
        }
        if is_disk_full {
            self.course.faults.push((Kind::FullDisk, now()));
            return Ok(true);
        }
        if ends_the_run {
            return Ok(true);
        }
        self.course.trouble = Some(format!("it ended with {status}: {}", last_words(self.folder)));
        Ok(false)
    }

    /// Returns the faults inside the process that have happened since the last call.
    fn take_used(&mut self) -> Result<Vec<Kind>, Failed> {
        let text = fs::read_to_string(self.folder.join("used.jsonl")).unwrap_or_default();
        let mut kinds = Vec::new();
        for line in text.lines().skip(self.used) {
            let noted: serde_json::Value = serde_json::from_str(line)?;
            let fault = self.plan.inside.iter().find(|it| Some(it.id) == noted["id"].as_u64());
            let kind = fault.ok_or("a fault was noted that nobody ordered")?.kind;
            // Samples are read ahead of need: what ends the process does so later.
            let millis = noted["millis"].as_u64().filter(|_| !kind.may_end_the_run());
            self.course.faults.push((kind, millis.unwrap_or_else(now)));
            kinds.push(kind);
        }
        self.used += kinds.len();
        Ok(kinds)
    }

    /// Goes on while a file of the data is away, which must be refused, and puts it back.
    fn start_without_a_file(&mut self, dice: u64) -> Result<(), Failed> {
        let data = self.folder.join("data");
        let mut files = files_of(&data)?;
        files.sort();
        let file = &files[usize::try_from(dice % files.len() as u64)?];
        let away = self.folder.join("away");
        fs::rename(file, &away)?;
        // Without a checkpoint there is nothing that the other data would not fit.
        if self.course.run.join("checkpoints/step-00000000").is_dir() {
            let mut process = Process::start(&self.order(None))?;
            let status = process.wait(|_| false)?;
            if !status.is_some_and(|it| matches!(it.code(), Some(1 | 2))) {
                let missing = file.display();
                self.course.trouble = Some(format!("without {missing} it went on, or ended with {status:?}"));
            }
        }
        fs::rename(&away, file)?;
        Ok(())
    }
}

/// Returns all files of a folder and of those in it.
fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(files_of(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

fn last_words(folder: &Path) -> String {
    let words = fs::read_to_string(folder.join("stderr.txt")).unwrap_or_default();
    words.lines().next_back().unwrap_or("no word").to_owned()
}
