//! Whether a run may go on with these settings.

use plimsoll_predict::{Dtype, Platform};
use plimsoll_sampler::{EpochEnd, Objective, PlanConfig, TaskMix};
use plimsoll_types::Fraction;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::balance::TaskBalance;
use crate::config::FitConfig;
use crate::job::Job;
use crate::learning_rate::LearningRate;
use crate::loader::{BadSample, LoaderConfig, StepUnit};
use crate::source::{Lengths, Source};

/// Settings that a run keeps from its first step to its last, by their keys in the configuration.
///
/// They decide which samples come in which step and what is made of them, or the state of predictor and policy in a
/// checkpoint means nothing without them. What is kept is what takes effect: a setting that does nothing for these
/// samples may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kept(Value);

/// The optimizer of a job that names none.
const USUAL_OPTIMIZER: &str = "Adam";

/// A setting that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub key: String,
    /// Its value when the run started.
    pub was: String,
    /// Its value now.
    pub now: String,
}

impl Kept {
    /// Returns the settings that a run of this job keeps.
    pub fn of<J: Job>(job: &J, config: &FitConfig, balance: &TaskBalance) -> Self {
        let controller = config.controller.with_features(job.features());
        let mut memory = value(&controller.predictor);
        // Where it is switched on as needed, it depends on the capacity, and the checkpoint knows.
        memory["gradient_checkpointing"] = (!config.may_checkpoint && controller.recompute.is_on_anywhere()).into();
        let lengths = job.source().lengths();
        let samples = match lengths {
            Lengths::Cut => "cut",
            Lengths::Known(_) | Lengths::Grouped(_) => "padded",
            Lengths::Streamed { .. } => "streamed",
            Lengths::Packed { .. } => "packed",
        };
        // How passes compute is a setting of its own.
        let platform = Platform { dtype: Dtype::default(), ..controller.platform };
        let mut kept = json!({
            "job": job.fingerprint(),
            "samples": samples,
            "seed": config.seed,
            "device": class(&config.device),
            "platform": platform,
            "train": { "deterministic": config.deterministic, "precision": controller.platform.dtype },
            "batch": batch(&config.loader, &lengths),
            "tasks": tasks(job.tasks(), &config.loader, balance),
            "memory": memory,
            "policy": without_plan(value(&controller.policy)),
            "small_batch": controller.small_batch,
        });
        if let Lengths::Grouped(groups) = &lengths {
            kept["data"]["together"] = format!("{} groups ({:016x})", groups.len(), groups.fingerprint()).into();
        }
        // Its state fits no other. Most runs have this one, those among them that began when there was no other.
        let optimizer = job.optimizer();
        if optimizer.name() != USUAL_OPTIMIZER {
            kept["optimizer"] = optimizer.name().into();
        }
        Self(kept)
    }

    /// Returns what must be equal on all ranks of a run: what it keeps, but for what belongs to a device, and how long it is.
    pub(crate) fn of_ranks<J: Job>(&self, job: &J, config: &FitConfig) -> Self {
        let Self(mut told) = self.of_any_rank();
        let (program, fingerprint) = (job.program(), job.fingerprint());
        let content = fingerprint.strip_prefix(&program).map_or(&*fingerprint, |it| it.trim_start_matches(" on "));
        (told["job"], told["content"]) = (program.into(), content.into());
        let LearningRate { peak, warm_up_steps, final_share, scaling } = config.learning_rate;
        told["version"] = env!("CARGO_PKG_VERSION").into();
        told["train"]["steps"] = config.n_steps.into();
        told["train"]["learning_rate"] = peak.into();
        told["train"]["warm_up_steps"] = warm_up_steps.into();
        told["train"]["final_learning_rate_share"] = final_share.into();
        told["train"]["learning_rate_scaling"] = value(&scaling);
        told["train"]["validate_every"] = config.validate_every.into();
        told["train"]["checkpoint_every"] = config.checkpoint_every.into();
        told["data"]["bad_sample"] = (config.loader.bad_sample == BadSample::Skip).into();
        Self(told)
    }

    /// Returns what a run keeps on whatever rank: not what belongs to a device.
    pub(crate) fn of_any_rank(&self) -> Self {
        let mut kept = self.0.clone();
        for of_device in ["device", "platform", "small_batch", "memory", "policy"] {
            kept[of_device] = Value::Null;
        }
        Self(kept)
    }

    /// Returns it as text.
    pub(crate) fn to_text(&self) -> String {
        self.0.to_string()
    }

    /// Reads what [`Self::to_text`] has written; what makes no sense differs from anything.
    pub(crate) fn parse(text: &[u8]) -> Self {
        Self(serde_json::from_slice(text).unwrap_or(Value::Null))
    }

    /// Returns the first setting in which two runs differ.
    pub fn change(&self, now: &Self) -> Option<Change> {
        let (path, was, now) = difference("", &without_threads(&self.0), &without_threads(&now.0))?;
        let stepwise = self.0["policy"]["kind"] == "stepwise";
        let shown = |value: &Value| match value {
            Value::Null if path == "optimizer" => USUAL_OPTIMIZER.to_owned(),
            // What was not there yet when a run began is as it was then.
            Value::Null if path == "batch.pack" || path == "batch.drop_last" => false.to_string(),
            Value::Null if path == "batch.multiple_of" => 1.to_string(),
            Value::Null if path == "data.together" => "no groups".to_owned(),
            Value::Null if path == "batch.window" => "preset".to_owned(),
            Value::Null if path == "batch.most_mates_kept" => usual_mates().to_string(),
            Value::Null if path == "batch.objective" => "fewest-batches".to_owned(),
            Value::Null if path == "batch.overhead" => 0.to_string(),
            Value::Null if path == "tasks.ends" => "all-once".to_owned(),
            value if path == "samples" => (value == "streamed").to_string(),
            value => shown(value),
        };
        Some(Change { key: key(&path, stepwise), was: shown(&was), now: shown(&now) })
    }
}

/// Returns what of a device's description must stay: the number of threads that compute may change.
fn class(device: &str) -> &str {
    device.split_once(" (").map_or(device, |(kind, _)| if kind == "flex" { kind } else { device })
}

/// The same of the fingerprint of a device that is a CPU.
fn without_threads(kept: &Value) -> Value {
    let mut kept = kept.clone();
    if kept["device"] == "flex" {
        kept["platform"]["device"] = Value::Null;
    }
    kept
}

fn batch(loader: &LoaderConfig, lengths: &Lengths) -> Value {
    let unit = match loader.unit {
        StepUnit::Samples => "samples",
        StepUnit::Positions => "tokens",
        StepUnit::Batch => "batch",
        StepUnit::BatchOfPositions => "batch of tokens",
    };
    let mut kept = json!({ "effective_batch_size": loader.effective_batch_size, "effective_unit": unit });
    if loader.drop_last {
        kept["drop_last"] = true.into();
    }
    if let Lengths::Packed { row_len, .. } = lengths {
        kept["pack"] = true.into();
        kept["row_len"] = json!(row_len);
    } else if !loader.cells.is_empty() {
        kept["n_edges"] = json!(loader.cells);
    }
    if !loader.cells.is_empty() {
        kept["batches_per_step"] = loader.batches_per_step.into();
    }
    if !loader.cells.is_empty() && 1 < loader.multiple_of {
        kept["multiple_of"] = loader.multiple_of.into();
    }
    if let Some(window) = loader.window {
        kept["window"] = window.into();
    }
    if loader.most_mates_kept != usual_mates() {
        kept["most_mates_kept"] = json!(loader.most_mates_kept);
    }
    if let Objective::LeastTime { batch_overhead } = loader.objective {
        kept["objective"] = "least-time".into();
        kept["overhead"] = batch_overhead.into();
    }
    kept
}

/// The mates that padded batches keep at most unless others are asked for.
fn usual_mates() -> Fraction {
    PlanConfig::<1>::default().most_mates_kept
}

fn tasks(names: &[String], loader: &LoaderConfig, balance: &TaskBalance) -> Value {
    let mut kept = if names.is_empty() { json!({}) } else { balance.settings() };
    if !loader.cells.is_empty() {
        let TaskMix { shares, ends, normalize_shares, diversity_weight, homogeneous } = &loader.tasks;
        kept["shares"] = json!(shares);
        kept["normalize_shares"] = json!(normalize_shares);
        kept["diversity_weight"] = json!(diversity_weight);
        kept["homogeneous"] = json!(homogeneous);
        // Runs that began when there was no other end have this one.
        match ends {
            EpochEnd::AllOnce => {}
            EpochEnd::FirstExhausted => kept["ends"] = json!("first"),
            EpochEnd::LastExhausted => kept["ends"] = json!("last"),
        }
    }
    kept
}

/// Leaves out what depends on the plan, which the checkpoint holds, and which another capacity changes.
fn without_plan(mut policy: Value) -> Value {
    if let Value::Object(settings) = &mut policy {
        settings.remove("start");
        if settings.get("from_plan") == Some(&Value::Bool(true)) {
            settings.retain(|key, _| key == "kind" || key == "from_plan");
        }
    }
    policy
}

fn value(settings: &impl Serialize) -> Value {
    serde_json::to_value(settings).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"))
}

/// What decides much else comes before it.
const FIRST: [&str; 8] = ["job", "content", "train", "kind", "balance", "pack", "objective", "ends"];

/// Finds the path of the first value that differs, and both values; what one of them lacks is null.
fn difference(path: &str, was: &Value, now: &Value) -> Option<(String, Value, Value)> {
    let none = serde_json::Map::new();
    let (before, after) = match (was, now) {
        (Value::Object(before), Value::Object(after)) => (before, after),
        // What is missing as a whole differs in the first of its parts.
        (Value::Object(before), Value::Null) => (before, &none),
        (Value::Null, Value::Object(after)) => (&none, after),
        _ => return (was != now).then(|| (path.to_owned(), was.clone(), now.clone())),
    };
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let mut keys = FIRST.into_iter().chain(before.keys().chain(after.keys()).map(String::as_str));
    let at =
        |settings: &'_ serde_json::Map<String, Value>, key: &str| settings.get(key).cloned().unwrap_or(Value::Null);
    keys.find_map(|key| difference(&below(key), &at(before, key), &at(after, key)))
}

/// Returns the key of the configuration that decides what lies at this path.
fn key(path: &str, is_stepwise: bool) -> String {
    let key = match path {
        "policy.kind" => "policy.kind` or `batch.batch_size",
        "policy.warm_up_steps" | "policy.cooldown_steps" if is_stepwise => "policy.adjustment_frequency",
        "policy.target" => "policy.stepwise_target",
        "policy.dead_band" => "policy.stepwise_dead_band",
        "policy.edges" => "batch.n_edges",
        "policy.batch_max" => "batch.batch_max",
        "policy.batch_sizes" | "policy.from_plan" => "batch.batch_size",
        "platform" | "small_batch" => "device",
        "samples" => "data.stream",
        "content" => "data.folder",
        path => match path.strip_prefix("policy.bounds.") {
            Some(bound) => return format!("batch.{bound}"),
            None if path.starts_with("policy.knobs.") => "batch.batch_size",
            None => path,
        },
    };
    key.to_owned()
}

/// Shows a value as a person would write it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => match values.as_slice() {
            [first, .., last] if SHOWN < values.len() => {
                format!("{} sizes from {} to {}", values.len(), shown(first), shown(last))
            }
            _ => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        },
        other => other.to_string(),
    }
}

/// The most values of a list that are shown one by one.
const SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(was: Value, now: Value, change: Option<(&str, &str, &str)>) {
        let change = change.map(|(key, was, now)| Change { key: key.into(), was: was.into(), now: now.into() });
        assert_eq!(Kept(was).change(&Kept(now)), change);
    }

    #[test]
    fn the_first_setting_that_differs_is_named_by_its_path() {
        let run = || json!({ "batch": { "n_edges": [4, 8], "batches_per_step": 4 }, "seed": 3 });
        check(run(), run(), None);
        let mut other = run();
        other["batch"]["batches_per_step"] = 2.into();
        check(run(), other.clone(), Some(("batch.batches_per_step", "4", "2")));
        check(json!({ "batch": {} }), json!({ "batch": { "n_edges": [1] } }), Some(("batch.n_edges", "not set", "1")));
        other["batch"] = json!({ "pack": true, "row_len": 8, "batches_per_step": 4 });
        check(run(), other.clone(), Some(("batch.pack", "false", "true")));
        other["batch"] = run()["batch"].clone();
        other["seed"] = 4.into();
        check(run(), other, Some(("seed", "3", "4")));
    }

    #[test]
    fn another_choice_is_named_before_its_settings() {
        let policy = |kind: &str, key: &str| json!({ "policy": { "kind": kind, key: 1 } });
        let was = policy("certified", "bounds");
        check(was, policy("fixed", "knobs"), Some(("policy.kind` or `batch.batch_size", "certified", "fixed")));
    }

    #[test]
    fn a_change_is_named_by_the_key_that_a_user_writes() {
        let policy = |kind: &str, settings: Value| {
            let mut policy = settings;
            policy["kind"] = kind.into();
            json!({ "policy": policy })
        };
        let of = |kind: &str, was: Value, now: Value, expected| check(policy(kind, was), policy(kind, now), expected);
        let bounds = |n: u32| json!({ "bounds": { "patch_min": 8, "patch_max": n } });
        of("certified", bounds(16), bounds(24), Some(("batch.patch_max", "16", "24")));
        of("certified", bounds(16), json!({}), Some(("batch.patch_max", "16", "not set")));
        let steps = |n: u32| json!({ "cooldown_steps": n });
        of("certified", steps(3), steps(4), Some(("policy.cooldown_steps", "3", "4")));
        of("stepwise", steps(3), steps(4), Some(("policy.adjustment_frequency", "3", "4")));
        of(
            "stepwise",
            json!({ "target": 0.8 }),
            json!({ "target": 0.9 }),
            Some(("policy.stepwise_target", "0.8", "0.9")),
        );
        let edges = |n: u32| json!({ "edges": (1..=n).collect::<Vec<_>>() });
        of("bucketed", edges(3), edges(24), Some(("batch.n_edges", "1, 2, 3", "24 sizes from 1 to 24")));
    }

    #[test]
    fn what_a_plan_has_chosen_is_no_setting() {
        let fixed = |batch: u32, from_plan: bool| {
            without_plan(json!({ "kind": "fixed", "knobs": { "micro_batch_size": batch }, "from_plan": from_plan }))
        };
        check(fixed(3, true), fixed(5, true), None);
        check(fixed(3, false), fixed(5, false), Some(("knobs.micro_batch_size", "3", "5")));
        let certified = |start: Value| without_plan(json!({ "kind": "certified", "start": start }));
        check(certified(Value::Null), certified(json!([64, 8])), None);
    }

    #[test]
    fn ranks_have_devices_of_their_own() {
        let of = |device: &str, seed: u32| Kept(json!({ "device": device, "platform": device, "seed": seed }));
        let (first, second) = (of("cuda:0 (no fusion, no autotune)", 3), of("cuda:1 (no fusion, no autotune)", 3));
        assert_eq!(first.of_any_rank().change(&second.of_any_rank()), None);
        assert!(first.of_any_rank().change(&of("cuda:0", 4).of_any_rank()).is_some_and(|it| it.key == "seed"));
    }

    #[test]
    fn another_number_of_threads_is_the_same_device() {
        assert_eq!(class("flex (8 threads)"), class("flex (1 thread)"));
        assert_ne!(class("vulkan:0 (fusion, no autotune)"), class("vulkan:0 (no fusion, no autotune)"));
    }
}
