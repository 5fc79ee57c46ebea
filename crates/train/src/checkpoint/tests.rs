use std::collections::BTreeMap;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_predict::{Platform, PredictorConfig};
use plimsoll_sampler::EpochCursor;
use plimsoll_types::{Bytes, Knobs, Recompute};

use super::*;
use crate::balance::BalanceConfig;
use crate::controller::ControllerConfig;
use crate::validation::ValidationState;

#[derive(Module, Debug)]
struct Net {
    layers: Vec<Linear>,
    out: Linear,
}

fn net() -> Net {
    let device = Device::flex();
    let layers = (0..2).map(|_| LinearConfig::new(5, 5).init(&device)).collect();
    Net { layers, out: LinearConfig::new(5, 3).with_bias(false).init(&device) }
}

fn of_job(job: &str) -> Kept {
    serde_json::from_value(serde_json::json!({ "job": job })).unwrap()
}

fn state(step: u64) -> RunState {
    let config = ControllerConfig {
        predictor: PredictorConfig::default(),
        policy: PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 16, micro_batch_size: 2 })),
        recompute: Recompute::NEVER,
        platform: Platform::default(),
        exact_peaks: true,
        small_batch: 0,
        planned: Vec::new(),
        replicas: 1,
    };
    RunState {
        version: VERSION,
        kept: of_job("a net"),
        seed: 3,
        step,
        seconds: 0.1 + 0.2,
        log_bytes: 0,
        validated: false,
        best: None,
        budget: Budget { capacity: Bytes::mib(2), budget: Bytes::mib(1) },
        position: LoaderPosition::Cut(EpochCursor::try_new(7, 3).unwrap()),
        epoch_samples: 5,
        controller: Controller::try_new(config).unwrap(),
        balance: TaskBalance::try_new(&BalanceConfig::default(), 3).unwrap(),
        unfit: None,
        validation: ValidationState::default(),
    }
}

fn write(run_dir: &Path, state: &RunState) -> Result<Unpublished, CheckpointError> {
    let log = run_dir.join(EVENTS_FILE);
    if run_dir.is_dir() && !log.exists() {
        fs::write(log, "").unwrap();
    }
    state.write(run_dir, &net(), &AdamConfig::new().init(), 2)
}

fn save(run_dir: &Path, state: &RunState) -> Result<(), CheckpointError> {
    write(run_dir, state)?.publish()
}

/// A run directory with checkpoints of these steps.
fn run(steps: &[u64]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for step in steps {
        save(folder.path(), &state(*step)).unwrap();
    }
    folder
}

fn kept(run_dir: &Path) -> Vec<u64> {
    list(run_dir).into_iter().map(|it| it.0).collect()
}

#[test]
fn a_state_is_read_back_to_the_last_bit() {
    let run = run(&[3, 12]);
    let found = Checkpoint::last(run.path(), &of_job("a net")).unwrap();
    assert_eq!(found.state, state(12));
    assert!(found.passed_over.is_empty());
}

#[test]
fn the_last_ones_and_the_best_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let best = Best { step: 5, metric_name: "PSNR (dB)".to_owned(), metric: 31.5, ..Best::default() };
    for step in [0, 5, 9, 10, 100_000_000] {
        let best = (5 <= step).then(|| best.clone());
        save(folder.path(), &RunState { best, ..state(step) }).unwrap();
    }
    assert_eq!(kept(folder.path()), [5, 10, 100_000_000]);
    note_best(folder.path(), Some(&best)).unwrap();
    let path = folder.path().join("checkpoints/best.json");
    assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"step":5,"metric_name":"PSNR (dB)","metric":31.5}"#);
    note_best(folder.path(), Some(&Best { step: 7, ..best })).unwrap();
    assert!(!path.exists(), "it names a checkpoint that is not there");
}

#[test]
fn a_best_one_without_a_number_does_not_damage_those_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let best = Best { step: 3, metric_name: "PSNR (dB)".to_owned(), metric: f64::INFINITY, ..Best::default() };
    save(folder.path(), &RunState { best: Some(best), ..state(3) }).unwrap();
    let found = Checkpoint::last(folder.path(), &of_job("a net")).unwrap();
    assert!(found.passed_over.is_empty() && found.state.best.is_some_and(|it| it.metric.is_nan()));
}

#[test]
fn one_of_the_same_step_is_replaced_and_serves_until_then() {
    let run = run(&[4]);
    let folder = run.path().join(FOLDER_NAME);
    fs::rename(folder.join("step-00000004"), folder.join("replaced-00000004")).unwrap();
    assert_eq!(Checkpoint::last(run.path(), &of_job("a net")).unwrap().state.step, 4, "killed between the two renames");
    save(run.path(), &RunState { validated: true, ..state(4) }).unwrap();
    save(run.path(), &RunState { validated: true, seed: 9, ..state(4) }).unwrap();
    let found = Checkpoint::last(run.path(), &of_job("a net")).unwrap();
    assert_eq!((found.state.seed, kept(run.path())), (9, vec![4]));
}

const FOLDER_NAME: &str = "checkpoints";

/// Ways to damage a file.
fn damages(whole: &[u8]) -> Vec<Option<Vec<u8>>> {
    let flip = |at: usize| {
        let mut flipped = whole.to_vec();
        flipped[at] ^= 1 << (at % 8);
        Some(flipped)
    };
    let flips = (0..whole.len()).step_by(1 + whole.len() / 16).chain([whole.len() - 1]).map(flip);
    let cuts = [0, 1, whole.len() / 2, whole.len() - 1].map(|n| Some(whole[..n].to_vec()));
    let grown = Some([whole, b" "].concat());
    flips.chain(cuts).chain([None, grown]).collect()
}

/// A checksum says whether a file is what was written, not that its writer meant well.
#[test]
fn tensors_of_a_stranger_are_read_or_refused_whatever_their_checksums_say() {
    let run = run(&[4]);
    let found = Checkpoint::last(run.path(), &of_job("a net")).unwrap();
    for name in [MODEL, OPTIMIZER] {
        let path = run.path().join(FOLDER_NAME).join("step-00000004").join(name);
        let whole = fs::read(&path).unwrap();
        let changed = |at: usize, to: u8| {
            let mut changed = whole.clone();
            changed[at] = to;
            changed
        };
        let bytes =
            (0..whole.len()).flat_map(|at| [0, 0xff, whole[at] ^ 1, whole[at] ^ 0x80].map(|to| changed(at, to)));
        let cuts = (0..whole.len()).map(|n| whole[..n].to_vec());
        for file in bytes.chain(cuts) {
            fs::write(&path, file).unwrap();
            match found.load(net(), AdamConfig::new().init()) {
                Ok(_) => {}
                Err(error) => assert!(error.to_string().contains(name), "{error}"),
            }
        }
        fs::write(&path, whole).unwrap();
    }
    found.load(net(), AdamConfig::new().init()).unwrap();
}

#[test]
fn a_damaged_checkpoint_is_passed_over_with_its_reason() {
    let run = run(&[4, 8]);
    let last = run.path().join(FOLDER_NAME).join("step-00000008");
    for name in [MODEL, OPTIMIZER, STATE, WEIGHTS, "checksums.json"] {
        let path = last.join(name);
        let whole = fs::read(&path).unwrap();
        for damage in damages(&whole) {
            match &damage {
                Some(content) => fs::write(&path, content).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let found = Checkpoint::last(run.path(), &of_job("a net")).unwrap();
            if found.state.step == 8 {
                // White space after the checksums is the one change that changes nothing.
                assert_eq!((name, damage.map(|it| it.len())), ("checksums.json", Some(whole.len() + 1)));
                continue;
            }
            assert_eq!((found.state.step, found.passed_over.len()), (4, 1), "{name}");
            // A checksum that is damaged itself speaks against its file.
            let (reason, is_named) = (&found.passed_over[0], |it| found.passed_over[0].contains(it));
            assert!(is_named("step-00000008") && (is_named(name) || name == "checksums.json"), "{reason}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(Checkpoint::last(run.path(), &of_job("a net")).unwrap().state.step, 8);
    }
}

#[test]
fn where_all_are_damaged_each_is_named() {
    let run = run(&[4, 8]);
    for step in ["step-00000004", "step-00000008"] {
        fs::remove_file(run.path().join(FOLDER_NAME).join(step).join(MODEL)).unwrap();
    }
    let text = Checkpoint::last(run.path(), &of_job("a net")).unwrap_err().to_string();
    assert!(text.contains("step-00000004: model.bpk") && text.contains("step-00000008: model.bpk"), "{text}");
}

#[test]
fn a_checkpoint_of_something_else_is_refused_and_not_passed_over() {
    let run = run(&[4]);
    let error = Checkpoint::last(run.path(), &of_job("another net")).unwrap_err();
    assert!(matches!(&error, CheckpointError::Changed { change, .. } if change.key == "job"), "{error}");
    save(run.path(), &RunState { version: 99, ..state(8) }).unwrap();
    let error = Checkpoint::last(run.path(), &of_job("a net")).unwrap_err();
    assert!(matches!(error, CheckpointError::Version { found: 99, .. }), "{error}");
}

#[test]
fn a_checkpoint_beyond_the_end_of_the_log_is_passed_over() {
    let run = run(&[4]);
    fs::write(run.path().join(EVENTS_FILE), "{}\n").unwrap();
    save(run.path(), &RunState { log_bytes: 3, ..state(8) }).unwrap();
    assert_eq!(Checkpoint::last(run.path(), &of_job("a net")).unwrap().state.step, 8);
    save(run.path(), &RunState { log_bytes: 4, ..state(9) }).unwrap();
    let found = Checkpoint::last(run.path(), &of_job("a net")).unwrap();
    assert_eq!(found.state.step, 8);
    assert!(found.passed_over[0].contains("4 bytes of events.jsonl, which has only 3"), "{:?}", found.passed_over);
}

#[test]
fn what_a_kill_has_left_of_a_replaced_checkpoint_is_in_nobodys_way() {
    let run = run(&[4]);
    fs::create_dir_all(run.path().join(FOLDER_NAME).join("replaced-00000004/in the way")).unwrap();
    save(run.path(), &RunState { seed: 9, ..state(4) }).unwrap();
    assert_eq!(Checkpoint::last(run.path(), &of_job("a net")).unwrap().state.seed, 9);
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_earlier_ones_and_nothing_else() {
    let run = run(&[4]);
    // A file where the checkpoint of the same step has to wait, which is no folder that could be deleted.
    fs::write(run.path().join(FOLDER_NAME).join("replaced-00000004"), "in the way").unwrap();
    let error = save(run.path(), &RunState { seed: 9, ..state(4) }).unwrap_err().to_string();
    assert!(error.contains("replaced-00000004"), "{error}");
    assert!(!run.path().join(FOLDER_NAME).join("unfinished").exists());
    assert_eq!(Checkpoint::last(run.path(), &of_job("a net")).unwrap().state, state(4));
    let file = run.path().join("file");
    fs::write(&file, "").unwrap();
    let error = save(&file, &state(4)).unwrap_err().to_string();
    assert!(error.contains("file/checkpoints"), "{error}");
}

#[test]
fn one_that_has_no_name_yet_is_none_and_what_a_kill_leaves_of_it_is_in_nobodys_way() {
    let run = run(&[4]);
    let unfinished = run.path().join(FOLDER_NAME).join("unfinished");
    let last = || Checkpoint::last(run.path(), &of_job("a net")).unwrap();
    // A kill before the files are flushed, after that, and after their checksums are written too.
    drop(write(run.path(), &state(8)).unwrap());
    assert!(unfinished.join(WEIGHTS).exists() && !unfinished.join("checksums.json").exists());
    assert_eq!((last().state.step, last().passed_over.len()), (4, 0));
    write(run.path(), &RunState { seed: 9, ..state(8) }).unwrap();
    checksums::write(&unfinished).unwrap();
    assert_eq!((last().state.step, last().passed_over.len()), (4, 0));
    write(run.path(), &state(8)).unwrap().publish().unwrap();
    assert_eq!((last().state, unfinished.exists()), (state(8), false));
}

#[test]
fn whoever_drops_the_background_waits_for_its_checkpoint() {
    let run = run(&[4]);
    let mut background = Background::default();
    background.begin(write(run.path(), &state(8)).unwrap()).unwrap();
    drop(background);
    assert_eq!(Checkpoint::last(run.path(), &of_job("a net")).unwrap().state.step, 8);
}

#[test]
fn an_error_in_the_background_is_told_once_and_leaves_the_earlier_ones_and_nothing_else() {
    let run = run(&[4]);
    fs::write(run.path().join(FOLDER_NAME).join("replaced-00000004"), "in the way").unwrap();
    let mut background = Background::default();
    let begin = |background: &mut Background| {
        background.begin(write(run.path(), &RunState { seed: 9, ..state(4) }).unwrap()).unwrap();
    };
    begin(&mut background);
    let of_wait = background.wait().unwrap_err();
    begin(&mut background);
    let of_check = std::iter::repeat_with(|| background.check()).find_map(Result::err).unwrap();
    for error in [of_wait, of_check] {
        assert!(error.to_string().contains("replaced-00000004"), "{error}");
    }
    background.wait().unwrap();
    assert!(!run.path().join(FOLDER_NAME).join("unfinished").exists());
    assert_eq!(Checkpoint::last(run.path(), &of_job("a net")).unwrap().state, state(4));
}

/// Reads the format as its description says, and returns each tensor's shape and values.
fn read_safetensors(bytes: &[u8]) -> BTreeMap<String, (Vec<u64>, Vec<f32>)> {
    let (length, rest) = bytes.split_at(8);
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(length.try_into().unwrap())).unwrap());
    assert_eq!((8 + header.len()) % 8, 0, "the data is aligned");
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).unwrap();
    let mut end = 0;
    let tensors = header.into_iter().map(|(name, it)| {
        let range: [usize; 2] = serde_json::from_value(it["data_offsets"].clone()).unwrap();
        assert_eq!((it["dtype"].as_str(), range[0]), (Some("F32"), end), "{name}");
        end = range[1];
        let values = data[range[0]..range[1]].chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()));
        (name, (serde_json::from_value(it["shape"].clone()).unwrap(), values.collect()))
    });
    let tensors = tensors.collect();
    assert_eq!(end, data.len());
    tensors
}

#[test]
fn the_weights_are_safetensors_by_the_paths_of_the_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = net();
    let weight = Tensor::<2>::from_data(TensorData::from([[1.5f32, -2.0], [0.1, f32::MIN_POSITIVE]]), &Device::flex());
    model.out.weight = burn::module::Param::from_tensor(weight);
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    weights::write(&one, &model).unwrap();
    weights::write(&two, &model.clone()).unwrap();
    let bytes = fs::read(&one).unwrap();
    assert_eq!(bytes, fs::read(&two).unwrap());
    let tensors = read_safetensors(&bytes);
    let names: Vec<_> = tensors.keys().map(String::as_str).collect();
    assert_eq!(names, ["layers.0.bias", "layers.0.weight", "layers.1.bias", "layers.1.weight", "out.weight"]);
    assert_eq!(tensors["out.weight"], (vec![2, 2], vec![1.5, -2.0, 0.1, f32::MIN_POSITIVE]));
    let first = model.layers[1].weight.val().into_data().iter::<f32>().collect::<Vec<_>>();
    assert_eq!(tensors["layers.1.weight"], (vec![5, 5], first));
}
