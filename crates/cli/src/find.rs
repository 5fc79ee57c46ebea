//! `plimsoll find`.

use std::process::ExitCode;

use anyhow::Context;
use plimsoll_files::write_whole;
use plimsoll_finder::{FinderConfig, Found, Limit, Outcome, Winner};
use plimsoll_plan::{FoundBatch, Objective, Tried};
use plimsoll_predict::Phase;
use plimsoll_probe::DeviceKind;
use plimsoll_train::{FindRequest, Job, MAX_INFERENCE_BATCH, find_batch_size, sound_one};
use plimsoll_types::{Bytes, Extent, Fraction, StepShape};
use serde_json::{Value, json};

use crate::args::{FindArgs, FindObjective};
use crate::beat::Beat;
use crate::display::progress_of_planning;
use crate::exit::user_error;
use crate::harness::Harness;
use crate::jobs::{WithJob, with_job};
use crate::place::Place;
use crate::places::check_writable;
use crate::prepare::Prepared;
use crate::settings::Settings;
use crate::sizes::Sizes;
use crate::{signals, use_it};

pub(crate) fn find(args: &FindArgs, harness: &'static dyn Harness) -> anyhow::Result<ExitCode> {
    let loaded = args.config.layers(None)?.load()?;
    args.out.as_deref().map_or(Ok(()), check_writable)?;
    with_job(harness, &loaded, Find { args, settings: &loaded.settings })
}

struct Find<'a> {
    args: &'a FindArgs,
    settings: &'a Settings,
}

impl WithJob for Find<'_> {
    type Output = ExitCode;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<ExitCode> {
        let Self { args, settings } = self;
        prepared.introduce_device(settings);
        let batch_reduction = Fraction::try_new(args.batch_reduction)
            .map_err(|error| user_error(format!("find: `--batch-reduction` is {}: {error}", args.batch_reduction)))?;
        let largest = prepared.largest_sample;
        let has_room = |it: &Extent| it.n_axes() == largest.n_axes() && largest.covers(*it);
        if let Some(edge) = args.edge.filter(|it| !has_room(it)) {
            let edges = match largest.n_axes() {
                1 => "1".to_owned(),
                n => format!("an edge along each of {n} axes, as in 6x24, up"),
            };
            let allowed = format!("allowed is {edges} to {largest}, what every sample has room for");
            return Err(user_error(format!("find: `--edge` is {edge}, {allowed}")).into());
        }
        let inference = prepared.inference_extents.iter().copied().reduce(Extent::joined);
        let training = Some((Phase::Train, prepared.sizes.largest()));
        let (devices, mut answers, mut together) = (settings.devices(), Vec::new(), Vec::new());
        for (phase, extent) in training.into_iter().chain(inference.map(|extent| (Phase::Infer, extent))) {
            let extent = args.edge.unwrap_or(extent);
            let step = (phase == Phase::Train).then(|| prepared.loader.samples_of(extent));
            let finder = FinderConfig {
                extent,
                batch_max: step.map_or(args.batch_max, |step| step.min(args.batch_max)),
                target: settings.memory.target,
                batch_reduction,
                ..FinderConfig::default()
            };
            let batch_max = finder.batch_max;
            let mut of_devices = Vec::new();
            for place in Place::all(prepared.harness, &devices) {
                let found = search_on(place, &prepared, settings, finder.clone(), phase, args.objective)?;
                let limit = match step {
                    Some(step) if found.found.limit == Limit::BatchMax && step == batch_max => {
                        of_a_step(settings, step)
                    }
                    _ => found.found.limit.to_string(),
                };
                if !place.is_alone() {
                    println!("{place}, budget {}", found.found.budget);
                }
                println!("{}", table(phase, &found, &limit));
                answers.push(answer(place, phase, extent, &found));
                of_devices.push(found);
            }
            match of_devices.as_slice() {
                [found] => println!("{}", explained(&prepared, settings, (phase, extent), found)),
                all => {
                    let taken = Taken::of((phase, extent), &devices, all);
                    println!("{}", taken.explained(&devices));
                    together.push(taken.json());
                }
            }
        }
        signals::uncut(|| write(args, &json!({ "answers": answers, "together": together })))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What several devices take at once.
struct Taken {
    phase: Phase,
    extent: Extent,
    batches: Vec<u32>,
    /// The place of the device that takes the fewest, or of several that take as many the one with the smallest budget.
    tightest: usize,
}

impl Taken {
    fn of((phase, extent): (Phase, Extent), devices: &[(DeviceKind, Option<Bytes>)], found: &[FoundBatch]) -> Self {
        let batches: Vec<_> = found.iter().map(FoundBatch::batch).collect();
        let least = |at: &usize| (batches[*at], found[*at].found.budget);
        let tightest = (0..devices.len()).min_by_key(least).unwrap_or(0);
        Self { phase, extent, batches, tightest }
    }

    fn samples(&self) -> u64 {
        self.batches.iter().map(|it| u64::from(*it)).sum()
    }

    fn explained(&self, devices: &[(DeviceKind, Option<Bytes>)]) -> String {
        let Self { phase, extent, batches, tightest } = self;
        let (name, samples, kind) = (name(*phase), self.samples(), devices[*tightest].0);
        let batches: Vec<_> = batches.iter().map(ToString::to_string).collect();
        format!(
            "together             {samples} samples {} at once in {name} ({})\n\
             tightest             device {tightest} ({kind})\n\
             what this is: batches by real steps on each device, within its own budget\n\
             use it: nothing to set, all devices take as long for a step, in micro-batches that each is certain to hold\n",
            sized(*extent),
            batches.join(" + ")
        )
    }

    fn json(&self) -> Value {
        let Self { phase, extent, batches, tightest } = self;
        json!({
            "phase": name(*phase), "edge": written(*extent), "batches": batches, "samples": self.samples(),
            "tightest": tightest
        })
    }
}

/// Says that a step has no more samples than this.
fn of_a_step(settings: &Settings, n: u32) -> String {
    format!("the step, of {}: `train` takes no micro-batch above {n} here", settings.step().replace(" per step", ""))
}

/// Says what was answered, why others may answer otherwise, and how the answer is used.
fn explained<J: Job>(
    prepared: &Prepared<J>,
    settings: &Settings,
    (phase, extent): (Phase, Extent),
    it: &FoundBatch,
) -> String {
    let (batch, largest, budget, edge) = (it.batch(), it.found.largest, it.found.budget, extent.edge());
    let sized = sized(extent);
    if phase == Phase::Infer {
        let most = MAX_INFERENCE_BATCH;
        return format!(
            "what this is: a batch {sized} without gradients, within the budget of {budget}\n\
             use it: nothing to set, a validation takes as many at a time as fit, up to {most}\n"
        );
    }
    let less = if batch < largest { format!(", {batch} of {largest} to leave some room") } else { String::new() };
    let sets = match &prepared.sizes {
        Sizes::Cut(bounds) if edge != bounds.patch_max => {
            vec![format!("batch.patch_min={edge}"), format!("batch.patch_max={edge}")]
        }
        Sizes::Cut(_) | Sizes::Padded(_) => Vec::new(),
    };
    let use_it = match &prepared.sizes {
        Sizes::Cut(bounds) if !edge.is_multiple_of(bounds.patch_multiple) => {
            format!(
                "`train` takes patches that are multiples of {} only: search with one as `--edge`",
                bounds.patch_multiple
            )
        }
        Sizes::Padded(_) if extent != prepared.sizes.largest() => {
            format!(
                "it holds for samples of up to {extent}; without `--edge` the search is for the longest, as a run needs it"
            )
        }
        Sizes::Cut(_) | Sizes::Padded(_) => {
            use_it::train_with(&[vec![format!("batch.batch_size={batch}")], sets].concat())
        }
    };
    format!(
        "what this is: a micro-batch {sized} in a step of {}, by real steps within the budget of {budget}{less}\n\
         others differ: `plan` bounds each size from fewer steps, and \"adaptive\" batches follow what a run measures\n\
         use it: {use_it}\n",
        settings.step().replace(" per step", "")
    )
}

fn write(args: &FindArgs, answers: &Value) -> anyhow::Result<()> {
    let Some(out) = &args.out else { return Ok(()) };
    let text = serde_json::to_string_pretty(answers)? + "\n";
    write_whole(out, text.as_bytes()).with_context(|| format!("write {}", out.display()))?;
    println!("answer: {}", out.display());
    Ok(())
}

/// Searches on the first of the configured devices alone, and shows each real step.
pub(crate) fn search<J: Job>(
    prepared: &Prepared<J>,
    settings: &Settings,
    finder: FinderConfig,
    phase: Phase,
    objective: FindObjective,
) -> anyhow::Result<FoundBatch> {
    let place = Place { harness: prepared.harness, devices: &settings.devices()[..1], at: 0 };
    search_on(place, prepared, settings, finder, phase, objective)
}

/// Searches on a device, and shows each real step.
///
/// Where nothing but the process stops a step that needs too much, the smallest batch is approached first.
fn search_on<J: Job>(
    place: Place<'_>,
    prepared: &Prepared<J>,
    settings: &Settings,
    finder: FinderConfig,
    phase: Phase,
    objective: FindObjective,
) -> anyhow::Result<FoundBatch> {
    let least = StepShape::of(finder.batch_min, finder.extent);
    let mut sounding = prepared.plan_request(&settings.of_thread(place.at))?;
    // What is searched for takes no more than its own samples.
    (sounding.loader.effective_batch_size, sounding.loader.largest_extent) = (least.samples, least.extent());
    let (job, loader, open) = (&prepared.job, prepared.loader.clone(), move || place.open());
    let search = || {
        let sounded = if place.kind() == DeviceKind::Flex {
            sound_one(job, &sounding, (phase, least), &open, &mut progress_of_planning(place.kind()))?
        } else {
            None
        };
        let request = FindRequest {
            device: place.kind(),
            optimizer_recovery: settings.optimizer_recovery(),
            recompute: settings.memory.recompute(),
            dtype: settings.dtype(),
            finder,
            phase,
            loader: Some(loader),
            objective: match objective {
                FindObjective::Largest => Objective::Largest,
                FindObjective::Throughput => Objective::Throughput,
            },
            sounded,
        };
        let (beat, mut n_tried) = (Beat::start("finding"), 0);
        beat.at(name(phase), 0, 0);
        let mut on_tried = |it: &Tried| {
            beat.clear();
            eprintln!("tried       {} {}", name(phase), shown(it));
            n_tried += 1;
            beat.at(name(phase), n_tried, 0);
        };
        Ok(find_batch_size(job, &request, &open, &mut on_tried)?)
    };
    place.work(search).map_err(|error: anyhow::Error| match error.downcast() {
        Ok(error) => prepared.naming(error).into(),
        Err(error) => error,
    })
}

/// Says what a real step showed.
pub(crate) fn shown(it: &Tried) -> String {
    match it.outcome {
        Outcome::Measured { peak, .. } => format!("{}: peak {peak}, {:.3} s", it.shape, it.seconds),
        Outcome::OutOfMemory => format!("{}: out of memory, {:.3} s", it.shape, it.seconds),
    }
}

/// Says what the largest batch needs: as it was measured, or at the most.
pub(crate) fn need(it: &Found) -> String {
    let Found { upper, budget, .. } = it;
    let how = if it.is_measured { "measured" } else { "not run, bounded by" };
    format!("{how} {upper} of the budget of {budget}")
}

/// Says what samples are padded or cut to.
fn sized(extent: Extent) -> String {
    if extent.n_axes() == 1 { format!("of edge {extent}") } else { format!("padded to {extent}") }
}

/// Returns how many real steps were made.
fn n_steps(it: &FoundBatch) -> u32 {
    it.found.n_trials.saturating_add(it.n_repeated).saturating_add(it.timed.n_steps)
}

fn n_out_of_memory(it: &FoundBatch) -> u32 {
    it.found.n_out_of_memory.saturating_add(it.timed.n_out_of_memory)
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Train => "training",
        Phase::Infer => "inference",
    }
}

fn table(phase: Phase, it: &FoundBatch, limit: &str) -> String {
    let found = &it.found;
    let largest = format!("{} ({})", found.largest, need(found));
    let mut rows = vec![
        (name(phase), format!("batch {}", it.batch())),
        ("largest that fits", largest),
        ("limited by", limit.to_owned()),
        ("memory at the start", found.start.to_string()),
        ("peak", found.peak.max(it.timed.peak).to_string()),
        ("memory now", found.current.to_string()),
        ("memory per sample", found.per_sample.to_string()),
        ("real steps", format!("{}, {} out of memory", n_steps(it), n_out_of_memory(it))),
    ];
    if it.n_plans > 0 {
        rows.push(("dry runs", it.n_plans.to_string()));
    }
    rows.extend(it.winner.map(raced));
    let lines: Vec<String> = rows.iter().map(|(key, value)| format!("{key:<20} {value}")).collect();
    lines.join("\n") + "\n"
}

/// Says how fast the answer is; where a larger batch had a higher rate, that it is no more than timing varies.
fn raced(it: Winner) -> (&'static str, String) {
    let (rate, deviation, n) = (it.samples_per_second, it.deviation, it.n_batches);
    let (highest, its_rate) = it.highest;
    if highest == it.batch {
        return ("fastest", format!("{rate:.1} samples/s, of {n} batches timed"));
    }
    let tie = format!("batch {highest} had {its_rate:.1}, no more than timing varies, and takes more memory");
    ("as fast as any", format!("{rate:.1} ± {deviation:.1} samples/s, of {n} batches timed; {tie}"))
}

/// Writes an extent as a number where it has one axis, and as a list where it has several.
fn written(extent: Extent) -> Value {
    match extent.edges() {
        [edge] => json!(edge),
        edges => json!(edges),
    }
}

fn answer(place: Place<'_>, phase: Phase, extent: Extent, it: &FoundBatch) -> Value {
    let bytes = |it: Bytes| it.0;
    json!({
        "device": place.kind().to_string(),
        "phase": name(phase),
        "edge": written(extent),
        "batch": it.batch(),
        "largest": it.found.largest,
        "limited_by": it.found.limit,
        "upper": bytes(it.found.upper),
        "measured": it.found.is_measured,
        "budget": bytes(it.found.budget),
        "start": bytes(it.found.start),
        "peak": bytes(it.found.peak.max(it.timed.peak)),
        "current": bytes(it.found.current),
        "per_sample": bytes(it.found.per_sample),
        "real_steps": n_steps(it),
        "out_of_memory": n_out_of_memory(it),
        "samples_per_second": it.winner.map(|it| it.samples_per_second),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_batch_is_not_called_the_fastest_where_a_larger_one_was_faster() {
        let won = |highest| Winner { batch: 8, samples_per_second: 98.0, deviation: 3.0, n_batches: 4, highest };
        assert_eq!(raced(won((8, 98.0))), ("fastest", "98.0 samples/s, of 4 batches timed".to_owned()));
        let tie = "98.0 ± 3.0 samples/s, of 4 batches timed; batch 16 had 100.0, no more than timing varies, and takes more \
                   memory";
        assert_eq!(raced(won((16, 100.0))), ("as fast as any", tie.to_owned()));
    }
}
