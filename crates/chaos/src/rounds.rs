//! All rounds, some at a time.

use std::fs;
use std::io::{IsTerminal, Write};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::args::Args;
use crate::plan::Plan;
use crate::references::References;
use crate::report::Report;
use crate::verdict::{Verdict, judge};
use crate::{Failed, Place, picture, round, signals};

/// Rounds between two lines of progress, where no terminal is there to show one line.
const QUIET: u64 = 10;

/// Runs what is asked for; returns whether nothing was lost.
pub(crate) fn command(args: &Args) -> Result<bool, Failed> {
    let place = place(args)?;
    let rounds = args.round.map_or(0..args.rounds, |it| it..it + 1);
    println!("seed {}, rounds {} to {}, runs in {}", args.seed, rounds.start, rounds.end - 1, place.work.display());
    let references = References::make(&place)?;
    let tolerance = references.tolerance();
    let mut report = Report::new(args, &references);
    let all = Rounds {
        next: AtomicU64::new(rounds.start),
        end: rounds.end,
        report: Mutex::new(&mut report),
        begun: Instant::now(),
    };
    thread::scope(|scope| {
        for _ in 0..args.threads.min(usize::try_from(rounds.end - rounds.start).unwrap_or(1)) {
            scope.spawn(|| all.work(&place, args.seed, &references, tolerance));
        }
    });
    let is_stopped = place.stop.load(Relaxed);
    if args.has_picture && !is_stopped {
        report.picture = Some(picture::make(&place, &args.out)?);
    }
    report.publish(&args.out)?;
    println!("{}", report.to_markdown());
    if is_stopped {
        return Err("finish: a signal asked for the end".into());
    }
    Ok(report.is_clean())
}

fn place(args: &Args) -> Result<Place, Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    signals::listen(&stop)?;
    let help = Command::new(&args.program).args(["train", "--help"]).output()?;
    // Absolute, since a run keeps the path of its data.
    let work = std::path::absolute(args.out.join("chaos-runs"))?;
    fs::create_dir_all(&work)?;
    Ok(Place {
        program: std::path::absolute(&args.program)?,
        is_supervised: String::from_utf8_lossy(&help.stdout).contains("--no-supervise"),
        work,
        stop,
    })
}

struct Rounds<'a> {
    next: AtomicU64,
    end: u64,
    report: Mutex<&'a mut Report>,
    begun: Instant,
}

impl Rounds<'_> {
    fn work(&self, place: &Place, seed: u64, references: &References, tolerance: f64) {
        loop {
            let number = self.next.fetch_add(1, Relaxed);
            if self.end <= number || place.stop.load(Relaxed) {
                return;
            }
            let plan = Plan::new(seed, number);
            let folder = place.work.join(format!("round-{number}"));
            let verdict = references.of(place, plan.setting).and_then(|undisturbed| {
                let course = round::run(place, &plan, &folder)?;
                Ok(judge(&plan, course, &undisturbed, tolerance))
            });
            if place.stop.load(Relaxed) {
                return;
            }
            let is_clean = verdict.as_ref().is_ok_and(|it| it.problems.is_empty());
            if is_clean {
                // What cannot be deleted is in nobody's way.
                drop(fs::remove_dir_all(&folder));
            }
            self.tell(&plan, verdict);
        }
    }

    fn tell(&self, plan: &Plan, verdict: Result<Verdict, Failed>) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.add(plan, verdict);
        let (done, left) = (report.rounds, self.end.saturating_sub(self.next.load(Relaxed)));
        let rate = done as f64 / self.begun.elapsed().as_secs_f64();
        let line = format!(
            "{done} rounds · {} faults · {} failed · {rate:.2} rounds/s · {:.0} s left",
            report.n_faults(),
            report.failed.len(),
            left as f64 / rate
        );
        if std::io::stdout().is_terminal() {
            print!("\r{line}   ");
            // A terminal that is gone is no reason to stop.
            drop(std::io::stdout().flush());
        } else if done.is_multiple_of(QUIET) {
            println!("{line}");
        }
    }
}
