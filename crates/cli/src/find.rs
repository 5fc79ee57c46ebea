//! `plimsoll find`.

use std::process::ExitCode;

use anyhow::Context;
use plimsoll_files::write_whole;
use plimsoll_finder::{FinderConfig, Found, Outcome};
use plimsoll_predict::Phase;
use plimsoll_probe::DeviceKind;
use plimsoll_train::{FindRequest, FoundBatch, Job, Objective, Tried, find_batch_size, sound_one};
use plimsoll_types::{Bytes, Fraction, StepShape};
use serde_json::{Value, json};

use crate::args::{FindArgs, FindObjective};
use crate::display::progress_of_planning;
use crate::exit::user_error;
use crate::jobs::{WithJob, with_job};
use crate::prepare::{Prepared, open_probe};
use crate::settings::Settings;

pub(crate) fn find(args: &FindArgs) -> anyhow::Result<ExitCode> {
    let loaded = args.config.layers(None).load()?;
    with_job(&loaded, Find { args, settings: &loaded.settings })
}

struct Find<'a> {
    args: &'a FindArgs,
    settings: &'a Settings,
}

impl WithJob for Find<'_> {
    type Output = ExitCode;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<ExitCode> {
        let Self { args, settings } = self;
        eprintln!("device      {}, capacity {}", prepared.probe.name(), prepared.capacity);
        let batch_reduction = Fraction::try_new(args.batch_reduction)
            .map_err(|error| user_error(format!("find: `--batch-reduction` is {}: {error}", args.batch_reduction)))?;
        let largest = prepared.largest_sample;
        if let Some(edge) = args.edge.filter(|it| !(1..=largest).contains(it)) {
            let allowed = format!("allowed is 1 to {largest}, what every sample has room for");
            return Err(user_error(format!("find: `--edge` is {edge}, {allowed}")).into());
        }
        let inference = prepared.inference_edges.last().copied();
        let training = Some((Phase::Train, prepared.sizes.largest_edge()));
        let mut answers = Vec::new();
        for (phase, edge) in training.into_iter().chain(inference.map(|edge| (Phase::Infer, edge))) {
            let finder = FinderConfig {
                edge: args.edge.unwrap_or(edge),
                batch_max: args.batch_max,
                target: settings.memory.target,
                batch_reduction,
                ..FinderConfig::default()
            };
            let found = search(&prepared, settings, finder, phase, None, args.objective)?;
            println!("{}", table(phase, &found));
            answers.push(answer(phase, args.edge.unwrap_or(edge), &found));
        }
        write(args, &answers)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn write(args: &FindArgs, answers: &[Value]) -> anyhow::Result<()> {
    let Some(out) = &args.out else { return Ok(()) };
    let text = serde_json::to_string_pretty(answers)? + "\n";
    write_whole(out, text.as_bytes()).with_context(|| format!("write {}", out.display()))?;
    println!("answer: {}", out.display());
    Ok(())
}

/// Searches on the configured device, and shows each real step.
///
/// Where nothing but the process stops a step that needs too much, the smallest batch is approached first.
pub(crate) fn search<J: Job>(
    prepared: &Prepared<J>,
    settings: &Settings,
    finder: FinderConfig,
    phase: Phase,
    effective_batch_size: Option<u32>,
    objective: FindObjective,
) -> anyhow::Result<FoundBatch> {
    let open = || open_probe(settings);
    let sounded = if settings.device == DeviceKind::Flex {
        let least = StepShape::new(finder.batch_min, finder.edge);
        let mut request = prepared.plan_request(settings)?;
        // What is searched for takes no more than its own samples.
        (request.loader.effective_batch_size, request.loader.largest_edge) = (least.samples, least.edge());
        let read = sound_one(&prepared.job, &request, (phase, least), &open, &mut progress_of_planning());
        read.map_err(|error| prepared.naming(error))?
    } else {
        None
    };
    let request = FindRequest {
        device: settings.device,
        optimizer_recovery: settings.optimizer_recovery(),
        checkpointing: settings.memory.begins_with_checkpointing(),
        finder,
        phase,
        effective_batch_size,
        objective: match objective {
            FindObjective::Largest => Objective::Largest,
            FindObjective::Throughput => Objective::Throughput,
        },
        sounded,
    };
    let mut on_tried = |it: &Tried| eprintln!("tried       {} {}", name(phase), shown(it));
    Ok(find_batch_size(&prepared.job, &request, &open, &mut on_tried)?)
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
    if it.is_measured {
        format!("{upper} of the budget of {budget}")
    } else {
        format!("at most {upper} of the budget of {budget}")
    }
}

/// Returns how many real steps were made.
fn n_steps(it: &FoundBatch) -> u32 {
    it.found.n_trials.saturating_add(it.n_repeated)
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Train => "training",
        Phase::Infer => "inference",
    }
}

fn table(phase: Phase, it: &FoundBatch) -> String {
    let found = &it.found;
    let largest = format!("{} ({})", found.largest, need(found));
    let mut rows = vec![
        (name(phase), format!("batch {}", it.batch())),
        ("largest that fits", largest),
        ("limited by", found.limit.to_string()),
        ("memory at the start", found.start.to_string()),
        ("peak", found.peak.to_string()),
        ("memory now", found.current.to_string()),
        ("memory per sample", found.per_sample.to_string()),
        ("real steps", format!("{}, {} out of memory", n_steps(it), found.n_out_of_memory)),
    ];
    if it.n_plans > 0 {
        rows.push(("dry runs", it.n_plans.to_string()));
    }
    if let Some(winner) = it.winner {
        let (rate, n) = (winner.samples_per_second, winner.n_batches);
        rows.push(("fastest", format!("{rate:.1} samples/s, of {n} batches timed")));
    }
    let lines: Vec<String> = rows.iter().map(|(key, value)| format!("{key:<20} {value}")).collect();
    lines.join("\n") + "\n"
}

fn answer(phase: Phase, edge: u32, it: &FoundBatch) -> Value {
    let bytes = |it: Bytes| it.0;
    json!({
        "phase": name(phase),
        "edge": edge,
        "batch": it.batch(),
        "largest": it.found.largest,
        "limited_by": it.found.limit,
        "upper": bytes(it.found.upper),
        "measured": it.found.is_measured,
        "budget": bytes(it.found.budget),
        "start": bytes(it.found.start),
        "peak": bytes(it.found.peak),
        "current": bytes(it.found.current),
        "per_sample": bytes(it.found.per_sample),
        "real_steps": n_steps(it),
        "out_of_memory": it.found.n_out_of_memory,
        "samples_per_second": it.winner.map(|it| it.samples_per_second),
    })
}
