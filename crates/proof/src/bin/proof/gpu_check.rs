//! Everything that a GPU can be asked in a few minutes.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_finder::Found;
use plimsoll_predict::{Dtype, Phase};
use plimsoll_probe::{DeviceKind, nvidia};
use plimsoll_proof::plans::{Content, Figure, GpuReport, Group, Precision, ProductRun, Section, Sweep};
use plimsoll_train::has_autotune;
use plimsoll_types::{Bytes, StepShape};
use time::OffsetDateTime;

use crate::foreign::{Foreign, SequenceModel};
use crate::jobs::{JOBS, edges};
use crate::order::{Reply, Steps, Task};
use crate::predict::Proof;
use crate::product::{Settings, n_steps};
use crate::spawn::{Place, Running};
use crate::{Failed, devices, finder, publish};

/// A step that takes several pages.
const WATCHED: StepShape = StepShape::new(16, 32);

/// Each job gets one shape of each kind: all jobs in both precisions count for more than many shapes of one.
const CELLS: usize = 1;

/// The sections in the order of the report, each with the part of the whole time by which it ends. Those that are measured at
/// once come first, and have most of it: a card takes a fifth of a second for a kernel, and chooses among several.
const SECTIONS: [(&[Measure], f64); 7] = [
    (&[memory], 0.1),
    (&[plans, line], 0.62),
    (&[shortage], 0.66),
    (&[co_tenant], 0.7),
    (&[recompute], 0.88),
    (&[sweep], 0.96),
    (&[rules], 1.0),
];

/// Measures a section, and notes what it leaves out.
type Measure = fn(&Check, &mut Vec<String>) -> Content;

/// A device, and how much of it there is time for.
struct Check {
    place: Place,
    sizes: Sizes,
    /// Whether it computes beside this machine's cores, and not on them.
    is_gpu: bool,
    /// Whether the driver tells what other processes hold, and refuses what it has not.
    tells: bool,
}

/// How large its steps are.
#[derive(Clone, Copy)]
struct Sizes {
    /// What is planned.
    planned: &'static [&'static str],
    /// Steps of a run.
    steps: u64,
    /// The four jobs with the capacities of their runs, so that memory is short.
    capacities: [(&'static str, Bytes); 4],
    /// Keys of their configurations.
    set: &'static [&'static str],
    /// The largest micro-batch of a sweep, and the edge of its samples in pixels.
    sweep: (u32, u32),
    /// The capacity of a sweep.
    cap: Bytes,
}

/// On a GPU.
const FULL: Sizes = Sizes {
    planned: &JOBS,
    steps: 500,
    capacities: [
        ("sr", Bytes::mib(256)),
        ("text", Bytes::mib(512)),
        ("sequence", Bytes::mib(256)),
        ("multitask", Bytes::mib(256)),
    ],
    set: &["train.validate_every=1000", "batch.n_edges=4"],
    sweep: (64, 32),
    cap: Bytes::mib(512),
};

/// On a software device, each step of which takes seconds, and a plan minutes: a run learns from its steps there.
const SMALL: Sizes = Sizes {
    planned: &["sr", "unet"],
    steps: 12,
    capacities: [
        ("sequence", Bytes::mib(32)),
        ("text", Bytes::mib(96)),
        ("sr", Bytes::mib(32)),
        ("multitask", Bytes::mib(64)),
    ],
    set: &[
        "train.validate_every=1000",
        "batch.effective_unit=samples",
        "batch.effective_batch_size=8",
        "memory.plan=off",
        "batch.n_edges=3",
        "batch.patch_min=16",
        "batch.patch_max=24",
    ],
    sweep: (8, 16),
    cap: Bytes::mib(64),
};

/// Time to open all devices.
const TO_OPEN: Duration = Duration::from_secs(30);

/// `proof gpu-check`.
pub(crate) fn command(folder: &Path, samples: Option<&Path>, whole: Duration) -> Result<(), Failed> {
    let start = Instant::now();
    let (place, instead_of_a_gpu) = choose(samples)?;
    let is_gpu = instead_of_a_gpu.is_none();
    let sizes = if is_gpu { FULL } else { SMALL };
    let mut check = Check { tells: nvidia::device(0).is_ok(), place, sizes, is_gpu };
    let mut sections = Vec::new();
    for (measures, share) in SECTIONS {
        check.place.end = Some(start + whole.mul_f64(share));
        sections.extend(check.each(measures, |check, measure| {
            let mut left_out = Vec::new();
            let content = measure(check, &mut left_out);
            Section { content, left_out }
        }));
    }
    let seconds = start.elapsed().as_secs_f64();
    let (driver, date) =
        (nvidia::device(0).ok().and_then(|it| it.driver), OffsetDateTime::now_utc().date().to_string());
    let has_autotune = has_autotune(check.place.device);
    let device = check.place.name;
    let report = GpuReport { date, device, driver, has_autotune, instead_of_a_gpu, sections, seconds };
    publish::publish(&folder.join("gpu-check.json"), &serde_json::to_string_pretty(&report)?)?;
    publish::publish(&folder.join("gpu-check.md"), &report.to_string())?;
    println!("{report}\n{}", folder.join("gpu-check.md").display());
    Ok(())
}

/// Returns the best device at hand, and what it stands in for where it is no GPU.
fn choose(data: Option<&Path>) -> Result<(Place, Option<String>), Failed> {
    let all = [DeviceKind::Cuda(0), DeviceKind::Vulkan(0), DeviceKind::Flex];
    let (places, missing) = devices::at_hand(&all, data, Some(Instant::now() + TO_OPEN));
    let place = places.into_iter().next().ok_or("open any device")?;
    let whys: Vec<_> = missing.iter().map(|it| format!("failed to {}", it.reason)).collect();
    let instead = |what: &str| Some(format!("{what}, with fewer and smaller steps ({})", whys.join("; ")));
    let instead = match place.device {
        DeviceKind::Flex => instead("the CPU stands in"),
        _ if devices::is_software(&place) => instead("a software Vulkan device stands in"),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => None,
    };
    Ok((place, instead))
}

fn memory(check: &Check, left_out: &mut Vec<String>) -> Content {
    let figures = || -> Result<Vec<Figure>, Failed> {
        match check.place.ask(Task::Memory { shape: WATCHED })? {
            Reply::Memory(figures) => Ok(figures),
            _ => Err("read memory".into()),
        }
    };
    Content::Memory(noted(left_out, "memory", figures()).unwrap_or_default())
}

/// All jobs in 32 bits, then all in 16.
fn plans(check: &Check, left_out: &mut Vec<String>) -> Content {
    let formats = [Dtype::F32, Dtype::Bf16];
    let all = formats.iter().flat_map(|dtype| check.sizes.planned.iter().map(move |job| (*job, *dtype)));
    let (wanted, without): (Vec<_>, Vec<_>) = all.partition(|(job, dtype)| computes(job, *dtype));
    left_out.extend(without.iter().map(|(job, dtype)| {
        format!("{job} in {dtype}: Burn's layer of it keeps its states in 32 bits whatever the weights are")
    }));
    let proofs = check.each(&wanted, |check, (job, dtype)| {
        let mut proof = Proof::default();
        proof.prove(&Place { job, dtype: *dtype, ..check.place.clone() }, CELLS);
        (*dtype, proof)
    });
    let of = |dtype| {
        let proof: Proof = proofs.iter().filter(|(it, _)| *it == dtype).map(|(_, proof)| proof.clone()).collect();
        let report = noted(left_out, &format!("plans in {dtype}"), proof.finish());
        report.map(|report| Precision { dtype, report })
    };
    Content::Plans(formats.into_iter().filter_map(of).collect())
}

/// Whether a job has steps in a number format.
fn computes(job: &str, dtype: Dtype) -> bool {
    job != SequenceModel::NAME || dtype == Dtype::F32
}

fn line(check: &Check, left_out: &mut Vec<String>) -> Content {
    let runs = check.each(&check.sizes.capacities, |check, (job, capacity)| {
        (*job, check.of(job).train(&format!("at {capacity}"), &check.settings(*capacity), &mut |_| Ok(())))
    });
    Content::Line(runs.into_iter().filter_map(|(job, run)| noted(left_out, job, run)).collect())
}

/// Another process takes all that is free while the first steps are taken.
fn shortage(check: &Check, left_out: &mut Vec<String>) -> Content {
    let run = if check.tells {
        check.beside("while nothing is free", Bytes::ZERO, [0, 2])
    } else {
        Err("provoke a failure: this driver refuses nothing before the machine itself has no memory left".into())
    };
    Content::Shortage(noted(left_out, "a shortage", run).into_iter().collect())
}

fn co_tenant(check: &Check, left_out: &mut Vec<String>) -> Content {
    let run = if check.tells {
        check.beside("beside another process", Bytes::mib(128), [1, 2])
    } else {
        Err("see another process: this driver does not tell what others hold".into())
    };
    Content::CoTenant(noted(left_out, "a co-tenant", run).into_iter().collect())
}

/// Takes turns at a capacity between what one sample of the longest takes with recompute, and without.
fn recompute(check: &Check, left_out: &mut Vec<String>) -> Content {
    let place = check.of("text");
    let mut runs = Vec::new();
    if let Some(capacity) = noted(left_out, "a capacity that asks for recompute", between(&place)) {
        for mode in ["auto", "on", "auto", "on", "off"] {
            let mut settings = check.settings(capacity);
            settings.set.push(format!("memory.gradient_checkpointing={mode}"));
            let run = place.train(mode, &settings, &mut |_| Ok(()));
            runs.extend(noted(left_out, &format!("recompute {mode} at {capacity}"), run));
        }
    }
    Content::Recompute(runs)
}

/// The longest text of a run by default, in tokens.
const LONGEST: u32 = 512;

/// The part of the capacity that a step may use by default.
const TARGET: f64 = 0.9;

/// Returns the capacity halfway between a sample of the longest with recompute, and without.
fn between(place: &Place) -> Result<Bytes, Failed> {
    let shape = StepShape::new(1, LONGEST);
    let need = |checkpointing| -> Result<f64, Failed> {
        let group = Group { effective_batch_size: 1, training: vec![shape], inference: Vec::new() };
        let task = Task::Plan { group, max_real_steps: 2 };
        let Reply::Plan(plan) = Place { checkpointing, ..place.clone() }.ask(task)? else {
            return Err("get a plan".into());
        };
        Ok(plan.cells.first().ok_or("plan a sample of the longest")?.upper.as_f64())
    };
    let (kept, sparing) = (need(false)?, need(true)?);
    if kept <= sparing {
        return Err("find a capacity: recompute spares nothing here".into());
    }
    Ok(Bytes::from_f64_ceil(f64::midpoint(kept, sparing) / TARGET))
}

fn sweep(check: &Check, left_out: &mut Vec<String>) -> Content {
    let of = |(job, _)| noted(left_out, job, check.sweep(job));
    Content::Sweep(check.sizes.capacities.into_iter().filter_map(of).collect())
}

fn rules(check: &Check, left_out: &mut Vec<String>) -> Content {
    Content::Finder(noted(left_out, "the finder", finder::on_device(&check.place)).into_iter().collect())
}

/// Steps of a shape: the last one counts.
const STEPS_OF_A_SHAPE: usize = 3;

impl Check {
    /// Measures each of several: at once on a card, whose processes compile kernels for most of their time, each on a core of
    /// its own; or else one after the other, each in its part of the time.
    fn each<T: Sync, R: Send>(&self, all: &[T], measure: impl Fn(&Self, &T) -> R + Sync) -> Vec<R> {
        if self.is_gpu {
            return thread::scope(|scope| {
                let running: Vec<_> = all.iter().map(|it| scope.spawn(|| measure(self, it))).collect();
                running.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
            });
        }
        let in_turn = all.iter().enumerate().map(|(n, it)| {
            let check = Self { place: self.place.turn(all.len() - n), ..*self };
            measure(&check, it)
        });
        in_turn.collect()
    }

    fn of(&self, job: &'static str) -> Place {
        Place { job, ..self.place.clone() }
    }

    fn settings(&self, capacity: Bytes) -> Settings {
        let set = self.sizes.set.iter().map(|it| (*it).to_owned()).collect();
        Settings { capacity, steps: self.sizes.steps, set }
    }

    /// Runs the first job while another process holds what is free but for some, between two thirds of the steps.
    fn beside(&self, what: &str, spare: Bytes, [from, to]: [u64; 2]) -> Result<ProductRun, Failed> {
        let (job, capacity) = self.sizes.capacities[0];
        let (place, mut other) = (self.of(job), None::<Running>);
        let third = |n: u64| usize::try_from(n * self.sizes.steps / 3).unwrap_or(usize::MAX);
        place.train(what, &self.settings(capacity), &mut |log| {
            let n_steps = n_steps(log);
            if third(to) <= n_steps {
                other = None;
            } else if third(from).max(1) <= n_steps && other.is_none() {
                other = Some(place.begin(Task::Hold { spare })?);
            }
            Ok(())
        })
    }

    /// Finds the micro-batch of a job, and runs it and all powers of two that fit.
    fn sweep(&self, job: &'static str) -> Result<Sweep, Failed> {
        let (place, Sizes { sweep: (batch_max, pixels), cap: capacity, .. }) = (self.of(job), self.sizes);
        let extent = edges(job).of(pixels);
        let task = Task::Find { extent, batch_max, capacity };
        let Reply::Find(Found { batch: chosen, .. }) = place.ask(task)? else { return Err("get a batch".into()) };
        let mut tried = Vec::new();
        for batch in (1..=batch_max).filter(|it| it.is_power_of_two() || *it == chosen) {
            let shape = StepShape::of(batch, extent);
            let (phase, n_samples, count) = (Phase::Train, batch_max, STEPS_OF_A_SHAPE);
            let task = Task::Cell(Steps { phase, shape, n_samples, count, largest: None });
            let Reply::Cell(cell) = place.ask(task)? else { return Err("get a step".into()) };
            if cell.peak <= capacity {
                tried.push((batch, f64::from(batch_max) / cell.seconds));
            }
        }
        Ok(Sweep { job: job.to_owned(), capacity, extent, chosen, tried })
    }
}

/// Notes what failed as left out.
fn noted<T>(left_out: &mut Vec<String>, what: &str, result: Result<T, Failed>) -> Option<T> {
    result.inspect_err(|error| left_out.push(format!("{what}: failed to {error}"))).ok()
}
