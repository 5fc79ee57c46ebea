//! The figures of all rounds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use plimsoll_files::write_whole;
use serde_json::{Value, json};

use crate::Failed;
use crate::args::Args;
use crate::kind::Kind;
use crate::picture::Picture;
use crate::plan::Plan;
use crate::references::References;
use crate::setting::{CHECKPOINT_EVERY, Mode, STEPS};
use crate::subject::Subject;
use crate::verdict::Verdict;

/// What all rounds showed.
#[derive(Debug)]
pub(crate) struct Report {
    seed: u64,
    pub(crate) rounds: u64,
    /// Rounds of each subject, and those of them that failed.
    subjects: BTreeMap<Subject, [u64; 2]>,
    faults: BTreeMap<Kind, Cost>,
    recoveries: u64,
    lost: u64,
    repeated: u64,
    unfinished: u64,
    kills: u64,
    kills_identical: u64,
    identical_rounds: u64,
    compared_rounds: u64,
    largest_distance: f64,
    /// Rounding, tolerance, and the distance to another seed.
    distances: [f64; 3],
    /// How to repeat each round that failed, and what was wrong.
    pub(crate) failed: Vec<(u64, Vec<String>)>,
    pub(crate) picture: Option<Picture>,
}

/// What the faults of a kind cost.
#[derive(Debug, Default)]
struct Cost {
    n: u64,
    /// Milliseconds until the run had got further than before, where it could be seen.
    millis: Vec<u64>,
    /// Steps that were done again.
    steps: Vec<u64>,
}

impl Report {
    pub(crate) fn new(args: &Args, references: &References) -> Self {
        Self {
            seed: args.seed,
            rounds: 0,
            subjects: BTreeMap::new(),
            faults: BTreeMap::new(),
            recoveries: 0,
            lost: 0,
            repeated: 0,
            unfinished: 0,
            kills: 0,
            kills_identical: 0,
            identical_rounds: 0,
            compared_rounds: 0,
            largest_distance: 0.0,
            distances: [references.rounding, references.tolerance(), references.other_seed],
            failed: Vec::new(),
            picture: None,
        }
    }

    /// Counts a round.
    pub(crate) fn add(&mut self, plan: &Plan, verdict: Result<Verdict, Failed>) {
        self.rounds += 1;
        self.subjects.entry(plan.setting.subject).or_default()[0] += 1;
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(error) => {
                self.unfinished += 1;
                self.fail(plan, vec![format!("failed to {error}")]);
                return;
            }
        };
        let course = &verdict.course;
        for (kind, cost) in course.costs() {
            let sum = self.faults.entry(kind).or_default();
            sum.n += 1;
            if let Some((lost, repeated)) = cost {
                sum.millis.push(lost);
                sum.steps.push(repeated);
            }
        }
        match course.trouble {
            None => self.recoveries += course.faults.len() as u64,
            Some(_) => self.unfinished += 1,
        }
        self.lost += verdict.audit.lost;
        self.repeated += verdict.audit.repeated;
        if plan.setting.mode == Mode::Deterministic {
            let kills = course.faults.iter().filter(|it| it.0.is_kill()).count() as u64;
            let is_identical = verdict.is_identical == Some(true);
            self.kills += kills;
            self.kills_identical += if is_identical { kills } else { 0 };
            self.compared_rounds += 1;
            self.identical_rounds += u64::from(is_identical);
        }
        self.largest_distance = verdict.distance.map_or(self.largest_distance, |it| it.max(self.largest_distance));
        if !verdict.problems.is_empty() {
            self.fail(plan, verdict.problems);
        }
    }

    fn fail(&mut self, plan: &Plan, problems: Vec<String>) {
        println!("\nround {} failed: {}", plan.round, problems.join("; "));
        println!("  repeat it with: cargo xtask chaos --seed {} --round {}", self.seed, plan.round);
        self.subjects.entry(plan.setting.subject).or_default()[1] += 1;
        self.failed.push((plan.round, problems));
    }

    pub(crate) fn n_faults(&self) -> u64 {
        self.faults.values().map(|it| it.n).sum()
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.picture.as_ref().is_none_or(Picture::is_clean)
    }

    /// Writes `chaos.json` and `chaos.md`.
    pub(crate) fn publish(&self, out: &Path) -> Result<(), Failed> {
        let json = serde_json::to_string_pretty(&self.to_json())? + "\n";
        for (name, text) in [("chaos.json", json), ("chaos.md", self.to_markdown())] {
            write_whole(&out.join(name), text.as_bytes())?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let by_kind = |of: fn(&Cost) -> Value| -> Value {
            self.faults.iter().map(|(kind, cost)| (kind.name(), of(cost))).collect::<serde_json::Map<_, _>>().into()
        };
        let [rounding, tolerance, other_seed] = self.distances;
        json!({
            "seed": self.seed,
            "rounds": self.rounds,
            "subjects": self.subjects.iter().map(|(subject, [rounds, failed])| {
                json!({"subject": subject.name(), "rounds": rounds, "failed": failed})
            }).collect::<Vec<_>>(),
            "faults_in_all": self.n_faults(),
            "faults": by_kind(|it| it.n.into()),
            "recoveries": self.recoveries,
            "samples_lost": self.lost,
            "samples_repeated": self.repeated,
            "unfinished": self.unfinished,
            "kills": self.kills,
            "kills_bit_identical": self.kills_identical,
            "rounds_compared_bit_by_bit": self.compared_rounds,
            "rounds_bit_identical": self.identical_rounds,
            "time_lost": by_kind(Cost::to_json),
            "steps": STEPS,
            "checkpoint_every": CHECKPOINT_EVERY,
            "weights": {
                "largest_distance": self.largest_distance,
                "tolerance": tolerance,
                "rounding": rounding,
                "another_seed": other_seed,
            },
            "picture": self.picture.as_ref().map(Picture::to_json),
            "failed_rounds": self.failed.iter().map(|(round, problems)| json!({"round": round, "problems": problems}))
                .collect::<Vec<_>>(),
            "machine": machine(),
        })
    }

    pub(crate) fn to_markdown(&self) -> String {
        let mut text = format!("# Chaos\n\nSeed {}, {}.\n\n| figure | |\n|---|---|\n", self.seed, machine());
        let mut row = |name: &str, value: String| {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "| {name} | {value} |");
        };
        row("rounds", self.rounds.to_string());
        row("faults", format!("{} of {} kinds", self.n_faults(), self.faults.len()));
        row("recoveries", self.recoveries.to_string());
        row("samples lost / repeated", format!("{} / {}", self.lost, self.repeated));
        row("runs not finished", self.unfinished.to_string());
        row(
            "kills −9 of deterministic rounds, those before damaged and vanished files too, with bit-identical weights and events",
            format!("{} of {}", self.kills_identical, self.kills),
        );
        row("rounds with them", format!("{} of {}", self.identical_rounds, self.compared_rounds));
        let [rounding, tolerance, other_seed] = self.distances;
        row("largest distance of weights of `sr` after out of memory", format!("{:.1e}", self.largest_distance));
        row(
            "tolerance",
            format!("{tolerance:.1e}, ten times what the size of micro-batches alone makes ({rounding:.1e})"),
        );
        row("distance to the weights of another seed", format!("{other_seed:.1e}"));
        if let Some(picture) = &self.picture {
            picture.rows(&mut row);
        }
        text += "\n| what trained | rounds | failed |\n|---|---|---|\n";
        for (subject, [rounds, failed]) in &self.subjects {
            let _ = writeln!(text, "| {} | {rounds} | {failed} |", subject.name());
        }
        text += "\n| fault | times | time lost, median | at most | steps repeated, at most |\n|---|---|---|---|---|\n";
        for (kind, cost) in &self.faults {
            let [median, most] = [median(&cost.millis), cost.millis.iter().max().copied()].map(millis);
            let steps = cost.steps.iter().max().map_or("–".to_owned(), u64::to_string);
            let _ = writeln!(text, "| {} | {} | {median} | {most} | {steps} |", kind.name().replace('_', " "), cost.n);
        }
        text += "\nTime is lost until the log holds more steps than before the fault, an ordinary step included; faults that came one upon \
             another are left out of it.\n";
        for (round, problems) in &self.failed {
            let _ = writeln!(text, "\nRound {round} failed: {}.", problems.join("; "));
        }
        text
    }
}

impl Cost {
    fn to_json(&self) -> Value {
        json!({
            "seen": self.millis.len(),
            "median_ms": median(&self.millis),
            "most_ms": self.millis.iter().max(),
            "most_steps_repeated": self.steps.iter().max(),
        })
    }
}

fn median(values: &[u64]) -> Option<u64> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn millis(value: Option<u64>) -> String {
    value.map_or("–".to_owned(), |it| format!("{it} ms"))
}

/// Says what the rounds ran on.
fn machine() -> String {
    let line = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let found = text.lines().find(|it| it.starts_with(key)).and_then(|it| it.split_once(':'));
        found.map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (processor, memory) = (line("/proc/cpuinfo", "model name"), line("/proc/meminfo", "MemTotal"));
    format!("{processor}, {cores} cores, {memory} of memory, {}", std::env::consts::OS)
}
