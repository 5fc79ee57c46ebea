//! Language modelling on the project's own documents, and on what users may put into a folder.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
mod generation;
#[path = "../common/parts.rs"]
mod parts;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};
use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
use plimsoll_sampler::{BatchPlanner, PaddedBudget, PlanConfig};
use plimsoll_train::{
    BadSample, Controller, ControllerConfig, Draw, Inference, Item, Job, Lengths, Metric, Part, Source, StopFlag,
    WeightedAccumulator,
};
use plimsoll_types::{Budget, Bytes, Knobs, StepShape};
use plimsoll_workloads::Room;
use plimsoll_workloads::text::{
    BOUNDARY, Corpus, CorpusConfig, Gpt, GptConfig, Text, TextError, Tokenizer, blank_generation,
};
use proptest::prelude::{any, proptest};

use common::check_splits;
use parts::{collated, length, parts};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const MODEL: GptConfig = GptConfig { layers: 2, width: 32, heads: 4 };

fn config(folder: &Path) -> CorpusConfig {
    CorpusConfig {
        folder: folder.to_owned(),
        validation_share: 0.2,
        bad_document: BadSample::Fail,
        vocabulary: 300,
        longest: 96,
        room: Room::boundless(folder),
    }
}

fn fixtures() -> Corpus {
    Corpus::read(&config(&plimsoll_fixtures::dir().join("text"))).unwrap()
}

fn job() -> Text {
    Text::new(MODEL, Arc::new(fixtures()))
}

fn model(job: &Text, device: &Device) -> Gpt {
    device.seed(11);
    job.init(device)
}

/// What the steps of these tests have room for.
const LARGEST: StepShape = StepShape::new(16, 96);

#[test]
fn every_split_of_a_step_has_the_gradient_of_the_undivided_one() {
    let (job, device) = (job(), Device::flex().autodiff());
    let (model, parts) = (model(&job, &device), parts(&job, 11));
    let whole = Part { ids: parts.iter().flat_map(|part| part.ids.clone()).collect(), edge: 96 };
    let lengths: Vec<_> = whole.ids.iter().map(|id| u64::from(length(&job, *id))).collect();
    let gradients = |parts: &[Part], sizes: &[usize]| {
        let (buffer, mut start) = (collated(&job, parts, LARGEST), 0);
        let mut accumulator = WeightedAccumulator::new(lengths.iter().sum());
        for n in sizes {
            let samples = start..start + n;
            let loss = job.mean_loss(&model, job.batch(&buffer, samples.clone(), &device), &[]).mean;
            let part = accumulator.backward(&model, &loss, lengths[samples.clone()].iter().sum());
            accumulator.add(&model, part);
            start = samples.end;
        }
        accumulator.finish()
    };
    let undivided = gradients(std::slice::from_ref(&whole), &[13]);
    let splits = [
        (&parts[..], vec![2, 5, 6]),
        (&parts[..], vec![2, 3, 2, 4, 2]),
        (&parts[..], vec![1; 13]),
        (&[whole][..], vec![8, 5]),
    ];
    let splits = splits.map(|(parts, sizes)| (format!("{sizes:?}"), gradients(parts, &sizes)));
    check_splits(&model, &device, &undivided, splits);
}

#[test]
fn padding_and_company_change_no_loss() {
    let (job, device) = (job(), Device::flex());
    let (model, parts) = (model(&job, &device), parts(&job, 11));
    let loss = |parts: &[Part], at: usize| {
        let batch = job.batch(&collated(&job, parts, LARGEST), at..at + 1, &device);
        job.mean_loss(&model, batch, &[]).mean.into_scalar::<f64>()
    };
    let whole = Part { ids: parts.iter().flat_map(|part| part.ids.clone()).collect(), edge: 96 };
    for (at, id) in whole.ids.iter().enumerate() {
        let alone = loss(&[Part { ids: vec![*id], edge: length(&job, *id) }], 0);
        for (parts, name) in [(&parts[..], "parts"), (std::slice::from_ref(&whole), "whole")] {
            let among = loss(parts, at);
            assert!((among - alone).abs() < 1e-5 * alone, "{id} in {name}: {among} {alone}");
        }
    }
}

#[test]
fn the_loss_is_that_of_the_definition() {
    let (job, device) = (job(), Device::flex());
    let model = model(&job, &device);
    let tokens = [0, 7, 290, 7, 31, 0];
    let (inputs, targets) = (integers(&tokens[..5], &device), integers(&tokens[1..], &device));
    let logits = values(model.logits(model.forward(inputs.clone())));
    let nats = values(model.surprise(model.forward(inputs), targets));
    for ((row, target), found) in logits.chunks_exact(logits.len() / 5).zip(&tokens[1..]).zip(nats) {
        let sum: f64 = row.iter().map(|it| f64::from(*it).exp()).sum();
        let expected = sum.ln() - f64::from(row[usize::from(*target)]);
        assert!((f64::from(found) - expected).abs() < 1e-5, "{found} {expected}");
    }
}

fn integers(tokens: &[u16], device: &Device) -> Tensor<2, Int> {
    let values: Vec<_> = tokens.iter().map(|it| i32::from(*it)).collect();
    Tensor::from_data(TensorData::new(values, [1, tokens.len()]), device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// Trains on batches of 1024 padded positions.
fn trained(job: &Text, n_steps: usize, device: &Device) -> Gpt {
    let Lengths::Known(index) = job.source().lengths() else { panic!("lengths are known") };
    let planner = BatchPlanner::try_new(index, PaddedBudget([1024]), PlanConfig::default()).unwrap();
    let (mut model, mut optimizer) = (model(job, device), AdamConfig::new().init());
    let parts = (0..).flat_map(|epoch| {
        let mut batches = planner.epoch(epoch);
        let part = |ids: &[u32], edge| Part { ids: ids.iter().map(|id| u64::from(*id)).collect(), edge };
        std::iter::from_fn(move || batches.next_batch().map(|it| part(it.ids, it.longest[0])))
    });
    for part in parts.take(n_steps) {
        let (n, buffer) = (part.ids.len(), collated(job, &[part], LARGEST));
        let loss = job.mean_loss(&model, job.batch(&buffer, 0..n, device), &[]).mean;
        model = optimizer.step(4e-3, model.clone(), GradientsParams::from_grads(loss.backward(), &model));
    }
    model
}

fn validate(job: &Text, model: &Gpt, device: &Device) -> Metric {
    let knobs = Knobs { patch_size: 64, micro_batch_size: 16 };
    let controller = ControllerConfig {
        predictor: plimsoll_predict::PredictorConfig::default(),
        policy: PolicyConfig::Fixed(FixedConfig::of(knobs)),
        checkpointing: false,
        platform: plimsoll_predict::Platform::default(),
        planned: Vec::new(),
        exact_peaks: true,
        small_batch: 0,
    };
    let mut controller = Controller::try_new(controller).unwrap();
    let capacity = Bytes::mib(512);
    let mut probe = open(DeviceKind::Flex, Some(capacity)).unwrap();
    let budget = Budget { capacity, budget: capacity };
    let mut inference = Inference::new(&mut *probe, &mut controller, budget, StopFlag::default());
    job.validate(model, device, &mut inference).unwrap().metric
}

#[test]
fn the_default_model_is_far_better_than_the_baseline_after_a_hundred_steps() {
    let corpus = CorpusConfig { vocabulary: 512, longest: 256, ..config(&plimsoll_fixtures::dir().join("text")) };
    let job = Text::new(GptConfig::default(), Arc::new(Corpus::read(&corpus).unwrap()));
    let device = Device::flex().autodiff();
    let Metric { name, value, baseline, .. } = validate(&job, &trained(&job, 100, &device), &device);
    assert_eq!(name, "loss (nats/token)");
    assert!(value < 0.7 * baseline, "{value} {baseline}");
}

#[test]
fn a_validation_is_the_mean_over_tokens() {
    let (corpus, device) = (Arc::new(fixtures()), Device::flex());
    let job = Text::new(MODEL, Arc::clone(&corpus));
    let model = model(&job, &device.clone().autodiff());
    let (valid, mut sum, mut n) = (model.valid(), 0.0, 0);
    for id in (0..).take(corpus.validation.len()) {
        let piece = corpus.validation.piece(id);
        let (inputs, targets) = (integers(&piece[..piece.len() - 1], &device), integers(&piece[1..], &device));
        let nats = values(valid.surprise(valid.forward(inputs), targets));
        sum += nats.iter().map(|it| f64::from(*it)).sum::<f64>();
        n += nats.len();
    }
    let metric = validate(&job, &model, &device.autodiff());
    assert!((metric.value - sum / n as f64).abs() < 1e-5, "{metric:?} {}", sum / n as f64);
    assert!((metric.baseline - corpus.baseline).abs() < 1e-12);
}

#[test]
fn what_is_planned_has_the_shapes_of_what_is_run() {
    let (job, device) = (job(), Device::flex().autodiff());
    let model = model(&job, &device);
    let (valid, vocabulary) = (model.valid(), fixtures().tokenizer.vocabulary());
    for (n, edge) in [(3, 20), (1, 1)] {
        let shape = StepShape::new(n, edge);
        let blank = job.mean_loss(&model, job.blank_batch(shape, &device), &[]).mean;
        assert!(blank.into_scalar::<f32>().is_finite());
        assert_eq!(job.blank_forward(&valid, shape, &Device::flex()).dims(), [n as usize]);
        let logits = blank_generation(&valid, shape, &Device::flex());
        assert_eq!(logits.dims(), [n as usize * vocabulary]);
    }
}

#[test]
fn lengths_are_those_of_the_samples() {
    let source = job().source();
    let Lengths::Known(index) = source.lengths() else { panic!("they are known") };
    assert_eq!((index.n_samples() as u64, index.longest()), (source.n_samples(), [96]));
    for (id, sample) in (0..).zip(0..source.n_samples()) {
        assert_eq!(index.lengths(id), [source.read(0, sample).unwrap().length()]);
    }
    let beyond = source.read(0, source.n_samples()).unwrap_err().to_string();
    assert!(beyond.contains(&format!("there are {} sections", source.n_samples())), "{beyond}");
}

#[test]
fn a_section_longer_than_its_edge_is_an_error() {
    let source = job().source();
    let items = [source.read(0, 3).unwrap()];
    let mut buffer = source.buffer(StepShape::new(1, 96));
    let edge = items[0].length() - 1;
    let error = source.collate(&Draw::of_edge(0, vec![3], edge), &items, &mut buffer).unwrap_err().to_string();
    assert_eq!(error, format!("read sample 3: it has {} tokens, its edge is {edge}", edge + 1));
}

#[test]
fn reading_is_the_same_every_time_and_splits_documents() {
    let (first, again) = (fixtures(), fixtures());
    assert_eq!((&first.train, &first.validation, first.baseline), (&again.train, &again.validation, again.baseline));
    assert_eq!(first.tokenizer.to_json().unwrap(), again.tokenizer.to_json().unwrap());
    let n_held = (0..).take(first.validation.len()).filter(|id| first.validation.piece(*id)[0] == BOUNDARY).count();
    assert!(8 < n_held && first.validation.len() < first.train.len(), "{n_held}");
    assert_ne!(job().fingerprint(), Text::new(MODEL, Arc::new(shorter())).fingerprint());
}

/// The same documents in shorter pieces.
fn shorter() -> Corpus {
    let config = CorpusConfig { longest: 40, ..config(&plimsoll_fixtures::dir().join("text")) };
    Corpus::tokenized(&config, fixtures().tokenizer).unwrap()
}

#[test]
fn documents_that_are_held_out_do_not_shape_the_tokenizer() {
    let folder = folder();
    let tokenizer = || Corpus::read(&config(folder.path())).unwrap().tokenizer.to_json().unwrap();
    let before = tokenizer();
    let shapes_nothing = |name: &&&str| {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, "zigzag ".repeat(20)).unwrap();
        let after = tokenizer();
        fs::write(&path, text).unwrap();
        after == before
    };
    // One of the four is held out.
    assert_eq!(DOCUMENTS.iter().filter(shapes_nothing).count(), 1);
}

const DOCUMENTS: [&str; 4] = ["one.txt", "two.txt", "below/three.md", "four.txt"];

/// A folder with four good documents.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    for (at, name) in DOCUMENTS.iter().enumerate() {
        let text = format!("Document {at} is about the tide, the tide and the other tide.\n").repeat(3 + at);
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_folder_is_read_recursively_and_what_is_no_document_is_named() {
    let folder = folder();
    fs::write(folder.path().join("table.csv"), "a,b").unwrap();
    fs::write(folder.path().join("blank.md"), "\u{feff} \n\n").unwrap();
    fs::create_dir(folder.path().join("folder.txt")).unwrap();
    let corpus = Corpus::read(&config(folder.path())).unwrap();
    assert_eq!((corpus.train.len(), corpus.validation.len()), (3, 1));
    assert_eq!(corpus.skipped, ["blank.md: empty", "table.csv: neither .txt nor .md"]);
}

#[test]
fn a_document_that_is_no_utf_8_is_refused_or_skipped_by_file_and_byte() {
    let folder = folder();
    fs::write(folder.path().join("latin.txt"), b"caf\xe9 au lait").unwrap();
    let error = Corpus::read(&config(folder.path())).unwrap_err();
    assert!(matches!(&error, TextError::NotUtf8 { path, byte: 3 } if path.ends_with("latin.txt")), "{error}");
    assert!(error.to_string().contains("data.bad_sample = \"skip\""), "{error}");
    let config = CorpusConfig { bad_document: BadSample::Skip, ..config(folder.path()) };
    assert_eq!(Corpus::read(&config).unwrap().skipped, ["latin.txt: no UTF-8 from byte 3"]);
}

#[test]
fn a_file_alone_is_divided_by_its_sections() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("book");
    let tide = |day: usize| format!("On day {day} the tide comes in and the tide goes out.");
    let days: Vec<_> = (0..20).map(tide).collect();
    fs::write(&file, days.join("\n\n")).unwrap();
    let corpus = Corpus::read(&CorpusConfig { longest: 400, ..config(&file) }).unwrap();
    assert_eq!((corpus.train.len(), corpus.validation.len()), (16, 4));
    let mut read: Vec<_> = [&corpus.train, &corpus.validation]
        .into_iter()
        .flat_map(|side| (0..).take(side.len()).map(|id| corpus.tokenizer.decode(side.piece(id)).unwrap()))
        .collect();
    let mut expected = days;
    read.sort();
    expected.sort();
    assert_eq!(read, expected);
    let fail = Corpus::read(&CorpusConfig { bad_document: BadSample::Skip, ..config(Path::new("/dev/null")) });
    assert!(fail.is_err());
}

#[test]
#[cfg(unix)]
fn a_link_to_nothing_is_refused_or_skipped() {
    let folder = folder();
    std::os::unix::fs::symlink("nowhere", folder.path().join("lost.txt")).unwrap();
    let error = Corpus::read(&config(folder.path())).unwrap_err();
    assert!(error.to_string().contains("lost.txt"), "{error}");
    let config = CorpusConfig { bad_document: BadSample::Skip, ..config(folder.path()) };
    let skipped = Corpus::read(&config).unwrap().skipped;
    assert!(skipped.len() == 1 && skipped[0].starts_with("lost.txt: "), "{skipped:?}");
}

#[test]
#[cfg(unix)]
fn a_pipe_or_a_device_is_refused_or_skipped() {
    let folder = folder();
    let (pipe, device) = (folder.path().join("pipe.txt"), folder.path().join("zero.md"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
    let error = Corpus::read(&config(folder.path())).unwrap_err().to_string();
    assert!(error.contains("pipe.txt: it is a named pipe, a file is needed"), "{error}");
    assert!(error.contains("data.bad_sample = \"skip\""), "{error}");
    let config = CorpusConfig { bad_document: BadSample::Skip, ..config(folder.path()) };
    let expected = ["pipe.txt: it is a named pipe, a file is needed", "zero.md: it is a device, a file is needed"];
    assert_eq!(Corpus::read(&config).unwrap().skipped, expected);
}

/// Two million letters and digits in an order without a pattern.
fn letters() -> String {
    let mut state = 1_u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"abcdefghijklmnopqrstuvwxyz012345"[(state >> 27) as usize]
    };
    String::from_utf8((0..2_000_000).map(|_| letter()).collect()).unwrap()
}

#[test]
fn two_megabytes_without_a_space_take_no_longer_than_a_few_times_as_many_with_spaces() {
    let without = letters();
    let with: String = (0..).zip(without.chars()).map(|(at, it)| if at % 8 == 7 { ' ' } else { it }).collect();
    let once = |text: &str| {
        let start = Instant::now();
        let tokenizer = Tokenizer::train([text].into_iter(), 1000).unwrap();
        let tokens = tokenizer.encode(text).unwrap();
        let time = start.elapsed();
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
        time
    };
    // Of two, the one that other programs held up less; with the square of the length it would be hundreds of times.
    let time = |text: &str| once(text).min(once(text));
    let (with, without) = (time(&with), time(&without));
    assert!(without < 20 * with, "{without:?} without spaces, {with:?} with them");
}

#[test]
fn a_folder_with_nothing_to_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = |config: &CorpusConfig| Corpus::read(config).unwrap_err().to_string();
    assert!(message(&config(folder.path())).contains("0 of 0 files are .txt or .md documents"));
    fs::write(folder.path().join("alone.txt"), "One document cannot be split.").unwrap();
    fs::write(folder.path().join("blank.txt"), "").unwrap();
    assert!(message(&config(folder.path())).contains("1 of 2 files are .txt or .md documents"));
    let file = folder.path().join("alone.txt");
    assert!(message(&config(&file)).contains("it is one file of 1 section, at least 2 are needed"));
    assert!(message(&config(&folder.path().join("blank.txt"))).contains("it is one file of 0 sections"));
    assert!(message(&config(&folder.path().join("gone"))).contains("there is no such folder"));
    assert!(message(&CorpusConfig { longest: 0, ..config(folder.path()) }).contains("`text.longest` is 0"));
}

#[test]
fn a_vocabulary_out_of_range_is_refused_by_its_key() {
    for vocabulary in [0, 256, 65_536] {
        let error = Tokenizer::train(["text"].into_iter(), vocabulary).unwrap_err().to_string();
        assert!(error.contains(&format!("`text.vocabulary` is {vocabulary}, it must be from 257 to 65535")), "{error}");
    }
}

#[test]
fn a_tokenizer_survives_its_file_and_another_order() {
    let texts = ["the tide is the tide", "a tide, the other tide", "boats on the tide"];
    let tokenizer = Tokenizer::train(texts.into_iter(), 270).unwrap();
    let json = tokenizer.to_json().unwrap();
    let again = Tokenizer::from_json(&json).unwrap();
    assert_eq!(again.to_json().unwrap(), json);
    assert_eq!(Tokenizer::train(texts.into_iter().rev(), 270).unwrap().to_json().unwrap(), json);
    let text = "the <|endoftext|> of the tide";
    let tokens = again.encode(text).unwrap();
    assert_eq!((tokens.clone(), tokens.contains(&BOUNDARY)), (tokenizer.encode(text).unwrap(), false));
    assert_eq!(again.decode(&tokens).unwrap(), text);
    assert!(tokens.len() < text.len());
    assert_eq!(again.decode(&[BOUNDARY, tokens[0], BOUNDARY]).unwrap(), again.decode(&tokens[..1]).unwrap());
    assert!(Tokenizer::from_json("{}").is_err());
}

#[test]
fn a_tokenizer_of_another_make_is_refused() {
    let json = Tokenizer::train(["text"].into_iter(), 257).unwrap().to_json().unwrap();
    let error = Tokenizer::from_json(&json.replace("<|endoftext|>", "<|stop|>")).unwrap_err().to_string();
    assert!(error.contains("`<|endoftext|>` is not the first"), "{error}");
}

proptest! {
    #[test]
    fn any_text_comes_back_from_its_tokens(text in any::<String>(), learnt in any::<String>()) {
        let tokenizer = Tokenizer::train([&*learnt, &*learnt].into_iter(), 280).unwrap();
        let tokens = tokenizer.encode(&text).unwrap();
        assert!(tokens.iter().all(|token| usize::from(*token) < tokenizer.vocabulary()));
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
    }
}
