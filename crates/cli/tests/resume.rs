//! Which settings may change when a run goes on: `docs/resume.md` against the program, key by key.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;

use plimsoll_fixtures::copy_folder;
use serde_json::Value;

const DEFAULTS: &str = include_str!("../src/default.toml");
const TABLE: &str = include_str!("../../../docs/resume.md");

/// What each run begins with.
const RUNS: [(&str, &[&str]); 12] = [
    ("sr", &["job=sr", "sr.channels=2", "sr.blocks=1"]),
    ("stepwise", &["job=sr", "sr.channels=2", "sr.blocks=1", "policy.kind=stepwise"]),
    ("multitask", &["job=multitask", "multitask.channels=2", "multitask.features=8"]),
    ("weighted", &["job=multitask", "multitask.channels=2", "multitask.features=8", "tasks.balance=fixed"]),
    ("sequence", &["job=sequence", "sequence.head_width=4", "sequence.blocks=1"]),
    (
        "known",
        &[
            "job=sequence",
            "sequence.head_width=4",
            "sequence.blocks=1",
            "data.stream=false",
            "batch.effective_batch_size=32",
        ],
    ),
    (
        "weighed",
        &[
            "job=sequence",
            "sequence.head_width=4",
            "sequence.blocks=1",
            "data.stream=false",
            "data.weight_column=weight",
            "data.folder=WEIGHED",
        ],
    ),
    (
        "cut",
        &["job=sequence", "sequence.head_width=4", "sequence.blocks=1", "data.longest=20", "data.outside=truncate"],
    ),
    (
        "mixed",
        &[
            "job=sequence",
            "sequence.head_width=4",
            "sequence.blocks=1",
            "data.source_column=speaker",
            "tasks.temperature=2.0",
        ],
    ),
    ("text", &["job=text", "text.width=16", "text.layers=1", "text.vocabulary=300", "batch.pack=false"]),
    ("timed", &["job=text", "text.width=16", "text.layers=1", "text.vocabulary=300", "batch.objective=least-time"]),
    ("packed", &["job=text", "text.width=16", "text.layers=1", "text.vocabulary=300", "batch.pack=true"]),
];

/// A run, a key, another value, and what a refusal names; nothing where the run goes on.
type Case = (&'static str, &'static str, &'static str, Option<&'static str>);

const GOES_ON: Option<&str> = None;

const CASES: [Case; 134] = [
    ("sr", "job", "sequence", Some("`job`")),
    ("sr", "device", "vulkan:99", Some("vulkan:99")),
    ("sr", "seed", "5", Some("`seed`")),
    ("sr", "memory.capacity", "3 GiB", GOES_ON),
    ("sr", "memory.capacity", "39 MiB", GOES_ON),
    ("stepwise", "memory.capacity", "3 GiB", GOES_ON),
    ("multitask", "memory.capacity", "3 GiB", GOES_ON),
    ("text", "memory.capacity", "3 GiB", GOES_ON),
    ("sr", "memory.target", "0.8", GOES_ON),
    ("sr", "memory.gradient_checkpointing", "off", GOES_ON),
    ("sr", "memory.gradient_checkpointing", "on", Some("`memory.gradient_checkpointing`")),
    ("sr", "memory.plan", "off", GOES_ON),
    ("sr", "memory.rounding_margin", "0.02", Some("`memory.rounding_margin`")),
    ("sr", "memory.regime_margin", "4.0", Some("`memory.regime_margin`")),
    ("sr", "batch.effective_batch_size", "16", Some("`batch.effective_batch_size`")),
    ("multitask", "batch.effective_unit", "batch", Some("`batch.effective_unit`")),
    ("multitask", "batch.n_edges", "2", Some("`batch.n_edges`")),
    ("multitask", "batch.batches_per_step", "2", Some("`batch.batches_per_step`")),
    ("sequence", "batch.batches_per_step", "2", Some("`batch.batches_per_step`")),
    ("text", "batch.batches_per_step", "2", Some("`batch.batches_per_step`")),
    ("sr", "batch.batches_per_step", "2", GOES_ON),
    ("text", "batch.multiple_of", "4", Some("`batch.multiple_of`")),
    ("sr", "batch.multiple_of", "4", Some("`batch.multiple_of`")),
    ("packed", "batch.multiple_of", "4", Some("`batch.multiple_of`")),
    ("text", "batch.window", "64", Some("`batch.window`")),
    ("packed", "batch.window", "64", Some("`batch.window`")),
    ("multitask", "batch.most_mates_kept", "0.5", Some("`batch.most_mates_kept`")),
    ("text", "batch.objective", "least-time", Some("`batch.objective`")),
    ("sequence", "batch.objective", "least-time", Some("`batch.objective`")),
    ("timed", "batch.overhead", "8", Some("`batch.overhead`")),
    ("sr", "batch.drop_last", "true", Some("`batch.drop_last`")),
    ("text", "batch.drop_last", "true", Some("`batch.drop_last`")),
    ("text", "batch.pack", "true", Some("`batch.pack`")),
    ("packed", "batch.pack", "false", Some("`batch.pack`")),
    ("packed", "batch.row_len", "600", Some("`batch.row_len`")),
    ("packed", "batch.n_edges", "2", GOES_ON),
    ("packed", "memory.capacity", "3 GiB", GOES_ON),
    ("sr", "batch.batch_size", "2", Some("`batch.batch_size`")),
    ("sr", "batch.patch_min", "12", Some("`batch.patch_min`")),
    ("sr", "batch.patch_max", "28", Some("`batch.patch_max`")),
    ("sr", "batch.batch_min", "2", Some("`batch.batch_min`")),
    ("sr", "batch.batch_max", "7", Some("`batch.batch_max`")),
    ("multitask", "batch.batch_max", "7", Some("`batch.batches_per_step`")),
    ("sr", "batch.patch_multiple", "8", Some("`batch.patch_m")),
    ("sr", "policy.kind", "fixed", Some("`policy.kind`")),
    ("sr", "policy.warm_up_steps", "4", Some("`policy.warm_up_steps`")),
    ("sr", "policy.cooldown_steps", "4", Some("`policy.cooldown_steps`")),
    ("sr", "policy.max_reversals", "9", Some("`policy.max_reversals`")),
    ("stepwise", "policy.max_adjustments", "9", Some("`policy.max_adjustments`")),
    ("sr", "policy.reopen_after_steps", "9", Some("`policy.reopen_after_steps`")),
    ("stepwise", "policy.adjustment_frequency", "9", Some("`policy.adjustment_frequency`")),
    ("stepwise", "policy.stepwise_target", "0.8", Some("`policy.stepwise_target`")),
    ("stepwise", "policy.stepwise_dead_band", "0.06", Some("`policy.stepwise_dead_band`")),
    ("sr", "policy.stepwise_target", "0.8", GOES_ON),
    ("sr", "train.steps", "4", GOES_ON),
    ("sr", "train.precision", "bf16", Some("`train.precision`")),
    ("sr", "train.deterministic", "true", Some("`train.deterministic`")),
    ("sr", "train.replicas", "3", GOES_ON),
    ("sr", "train.reduction", "host", GOES_ON),
    ("sr", "train.reduction", "nccl", Some("`train.reduction`")),
    ("sr", "train.learning_rate", "1e-3", GOES_ON),
    ("sr", "train.warm_up_steps", "1", GOES_ON),
    ("sr", "train.final_learning_rate_share", "0.5", GOES_ON),
    ("multitask", "train.learning_rate_scaling", "sqrt", GOES_ON),
    ("sr", "train.optimizer_recovery", "keep", GOES_ON),
    ("sr", "train.validate_every", "7", GOES_ON),
    ("sr", "train.checkpoint_every", "7", GOES_ON),
    ("sr", "train.validation_share", "0.5", GOES_ON),
    ("sr", "train.patience", "3", GOES_ON),
    ("sr", "train.keep_checkpoints", "1", GOES_ON),
    ("sr", "train.max_restarts", "1", GOES_ON),
    ("sr", "data.folder", "COPY", GOES_ON),
    ("sr", "data.folder", "OTHER", Some("`job`")),
    ("sr", "data.validation_share", "0.5", Some("`job`")),
    ("sr", "data.test_share", "0.1", Some("`job`")),
    ("text", "data.test_share", "0.3", Some("`job`")),
    ("sequence", "data.group_column", "speaker", Some("`job`")),
    ("sequence", "data.source_column", "speaker", Some("`job`")),
    ("mixed", "data.source_column", "label", Some("`job`")),
    ("text", "data.source_folders", "true", Some("`job`")),
    ("known", "data.together", "label", Some("`data.together`")),
    ("weighed", "data.weight_column", "", Some("`job`")),
    ("text", "data.together", "section", Some("`data.together`")),
    ("known", "data.workers", "2", GOES_ON),
    ("mixed", "data.workers", "2", GOES_ON),
    ("cut", "data.shortest", "14", Some("`job`")),
    ("cut", "data.longest", "15", Some("`job`")),
    ("cut", "data.outside", "skip", Some("`job`")),
    ("sequence", "data.outside", "skip", GOES_ON),
    ("sr", "data.bad_sample", "skip", GOES_ON),
    ("sr", "data.workers", "2", GOES_ON),
    ("sequence", "data.workers", "2", GOES_ON),
    ("sr", "data.buffer_limit", "8 MiB", GOES_ON),
    ("sequence", "data.buffer_limit", "9 MiB", GOES_ON),
    ("sequence", "data.stream", "false", Some("`data.stream`")),
    ("multitask", "data.stream", "true", Some("`data.stream`")),
    ("sequence", "data.look_ahead", "40", GOES_ON),
    ("sr", "data.store_limit", "1 GiB", GOES_ON),
    ("sr", "monitor.tensorboard", "true", GOES_ON),
    ("multitask", "tasks.balance", "fixed", Some("`job`")),
    ("multitask", "tasks.alpha", "1.0", Some("`tasks.alpha`")),
    ("multitask", "tasks.learning_rate", "0.01", Some("`tasks.learning_rate`")),
    ("weighted", "tasks.weights", "1, 1, 2", Some("`tasks.weights`")),
    ("multitask", "tasks.diversity_weight", "0.25", Some("`tasks.diversity_weight`")),
    ("multitask", "tasks.homogeneous", "true", Some("`tasks.homogeneous`")),
    ("multitask", "tasks.shares", "0.5, 0.25, 0.25", Some("`tasks.shares`")),
    ("multitask", "tasks.temperature", "2.0", Some("`tasks.shares`")),
    ("mixed", "tasks.temperature", "3.0", Some("`tasks.shares`")),
    ("mixed", "tasks.ends", "last", Some("`tasks.ends`")),
    ("multitask", "tasks.ends", "first", Some("`tasks.ends`")),
    ("multitask", "tasks.normalize_shares", "true", Some("`tasks.normalize_shares`")),
    ("sr", "sr.channels", "3", Some("`job`")),
    ("sr", "sr.blocks", "2", Some("`job`")),
    ("sr", "sr.validation_tile", "32", GOES_ON),
    ("sr", "sr.crops_per_image", "8", Some("`job`")),
    ("sequence", "sequence.heads", "2", Some("`job`")),
    ("sequence", "sequence.head_width", "8", Some("`job`")),
    ("sequence", "sequence.blocks", "2", Some("`job`")),
    ("multitask", "multitask.channels", "3", Some("`job`")),
    ("multitask", "multitask.features", "16", Some("`job`")),
    ("multitask", "multitask.places", "true", Some("`job`")),
    ("multitask", "multitask.label_smoothing", "0.1", GOES_ON),
    ("multitask", "multitask.zoom", "0.25", GOES_ON),
    ("multitask", "multitask.colors", "0.1", GOES_ON),
    ("multitask", "multitask.mirror", "true", GOES_ON),
    ("multitask", "multitask.image_size", "24", Some("`job`")),
    ("multitask", "multitask.own_sizes", "true", Some("`job`")),
    ("multitask", "multitask.max_words", "2", Some("`job`")),
    ("text", "text.vocabulary", "299", Some("`job`")),
    ("text", "text.longest", "256", Some("`job`")),
    ("text", "text.overlap", "64", Some("`job`")),
    ("text", "text.layers", "2", Some("`job`")),
    ("text", "text.width", "32", Some("`job`")),
    ("text", "text.heads", "2", Some("`job`")),
];

fn train(out: &Path, args: &[&str], sets: &[&str]) -> Output {
    let sets = sets.iter().flat_map(|it| ["--set", it]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--no-supervise", "--out"]).arg(out).args(args).args(sets).output().unwrap()
}

/// Does something with each of the items, on two threads.
fn for_each<T: Send>(items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let items = Mutex::new(items);
    let next = || items.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}

/// Goes on from a copy of a run with another value.
fn check(folder: &Path, at: usize, (run, key, value, named): Case) {
    let out = folder.join(format!("case-{at}"));
    copy_folder(&folder.join(run), &out).unwrap();
    let value = match value {
        "COPY" => folder.join("data").display().to_string(),
        "OTHER" => folder.join("other").display().to_string(),
        value => value.to_owned(),
    };
    let steps = if key == "train.steps" { &[][..] } else { &["--steps", "3"] };
    let output = train(&out, &[&["--resume"], steps].concat(), &[&format!("{key}={value}")]);
    let shown = format!("{run}, {key} = {value}: {}", String::from_utf8_lossy(&output.stderr));
    match named {
        None => assert!(output.status.success(), "{shown}"),
        Some(named) => {
            assert_eq!(output.status.code(), Some(2), "{shown}");
            assert!(shown.contains(named), "{named} is not named: {shown}");
        }
    }
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn what_may_change_goes_on_and_what_may_not_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (folder.path().join("data"), folder.path().join("other"));
    copy_folder(&plimsoll_fixtures::dir().join("sr"), &data).unwrap();
    // As many images under the same names, one of which is another's.
    copy_folder(&data, &other).unwrap();
    fs::copy(data.join("01_glyphs.png"), other.join("00_leaves.png")).unwrap();
    let weighed = folder.path().join("weighed recordings");
    copy_folder(&plimsoll_fixtures::dir().join("sequence"), &weighed).unwrap();
    let list = fs::read_to_string(weighed.join("labels.csv")).unwrap();
    let lines = list.lines().enumerate().map(|(at, line)| {
        let weight = if at == 0 { "weight".to_owned() } else { (at % 3).to_string() };
        format!("{line},{weight}\n")
    });
    fs::write(weighed.join("labels.csv"), lines.collect::<String>()).unwrap();
    for_each(RUNS.iter(), |(name, sets)| {
        let sets: Vec<_> = sets.iter().map(|it| it.replace("WEIGHED", &weighed.display().to_string())).collect();
        let sets: Vec<_> = sets.iter().map(String::as_str).collect();
        let output = train(&folder.path().join(name), &["--steps", "2"], &sets);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    });
    for_each(CASES.into_iter().enumerate(), |(at, case)| check(folder.path(), at, case));
}

/// Capacities in MiB that a run goes on with, one after the other, and steps with each.
const CAPACITIES: [u64; 4] = [40, 96, 32, 64];
const STEPS_EACH: u64 = 4;

#[test]
fn a_capacity_that_rises_and_falls_each_time_a_run_goes_on_is_followed_and_costs_no_sample() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for (at, capacity) in (1..).zip(CAPACITIES) {
        let (steps, set) = ((at * STEPS_EACH).to_string(), format!("memory.capacity={capacity} MiB"));
        let args = if at == 1 { &[][..] } else { &["--resume"] };
        let output = train(&out, &[args, &["--steps", &steps]].concat(), &[RUNS[0].1, &[&set]].concat());
        assert!(output.status.success(), "{capacity} MiB: {}", String::from_utf8_lossy(&output.stderr));
    }
    let log = fs::read_to_string(out.join("events.jsonl")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().filter(move |it| it["event"] == name).collect::<Vec<_>>();
    let number = |it: &Value, key: &str| it[key].as_u64().unwrap_or_else(|| panic!("{key} of {it}"));

    let changes: Vec<_> = of("budget_changed").iter().map(|it| (number(it, "step"), number(it, "capacity"))).collect();
    let expected: Vec<_> = (1..).zip(&CAPACITIES[1..]).map(|(at, mib)| (at * STEPS_EACH, mib << 20)).collect();
    assert_eq!(changes, expected);

    let steps = of("step_done");
    assert_eq!(
        steps.iter().map(|it| number(it, "step")).collect::<Vec<_>>(),
        (0..CAPACITIES.len() as u64 * STEPS_EACH).collect::<Vec<_>>()
    );
    let capacities: Vec<_> = steps.iter().map(|it| number(it, "capacity") >> 20).collect();
    assert_eq!(capacities, CAPACITIES.map(|it| [it; 4]).concat());
    assert!(steps.iter().all(|it| number(it, "peak") <= number(it, "capacity")), "{log}");

    // All of one epoch, as many in each step as a run of one capacity takes.
    let ids = |step: &Value| -> Vec<u64> {
        let parts = step["micro_batches"].as_array().unwrap().iter().flat_map(|it| it["ids"].as_array().unwrap());
        parts.map(|id| id.as_u64().unwrap()).collect()
    };
    let (n, sizes): (_, BTreeSet<_>) = (steps.len(), steps.iter().map(|it| ids(it).len()).collect());
    let all: BTreeSet<_> = steps.iter().flat_map(|it| ids(it)).collect();
    assert_eq!((sizes, all.len()), (BTreeSet::from([32]), 32 * n));

    let replayed = Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("replay").arg(out.join("events.jsonl")).output();
    let replayed = replayed.unwrap();
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stdout));
}

/// Every key of the defaults.
fn keys() -> Vec<String> {
    let mut section = String::new();
    let key = |line: &str| {
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            section = format!("{name}.");
        }
        (!line.starts_with('#')).then(|| line.split_once(" = ")).flatten().map(|(key, _)| format!("{section}{key}"))
    };
    DEFAULTS.lines().filter_map(key).collect()
}

#[test]
fn the_table_has_every_key_and_says_what_the_program_does() {
    let row = |line: &'static str| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ");
    let table: BTreeMap<_, _> = TABLE.lines().filter_map(row).collect();
    for key in keys() {
        let verdict = table.get(key.as_str()).unwrap_or_else(|| panic!("{key} is not in the table"));
        let cases = || CASES.iter().filter(|it| it.1 == key);
        let (goes_on, refused) = (cases().any(|it| it.3.is_none()), cases().any(|it| it.3.is_some()));
        match verdict.split_once([' ', ',', ':']).map_or(*verdict, |(first, _)| first) {
            "yes" => assert!(goes_on && !refused, "{key}"),
            "no" => assert!(refused, "{key}"),
            _ => assert!(goes_on && refused, "{key}"),
        }
    }
    assert_eq!(table.len(), keys().len(), "the table has a key that is none");
}

#[test]
fn a_run_keeps_the_bounds_that_it_began_with_whatever_the_capacity_is() {
    let folder = tempfile::tempdir().unwrap();
    let (images, out) = (folder.path().join("images"), folder.path().join("run"));
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr");
    copy_folder(&built_in, &images).unwrap();
    let small = ["sr.channels=4", "sr.blocks=1", "train.validate_every=100"];
    // All that the device has, of which a CPU takes the presets of a small one.
    let output = train(&out, &["--data", images.to_str().unwrap(), "--steps", "2"], &small);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (steps, capacity) in [("3", "2GiB"), ("4", "device"), ("5", "512MiB")] {
        let output = train(&out, &["--resume", "--steps", steps, "--capacity", capacity], &[]);
        assert!(output.status.success(), "{capacity}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
