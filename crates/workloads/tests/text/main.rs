//! Language modelling on the project's own documents.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
mod documents;
#[path = "../common/elsewhere.rs"]
mod elsewhere;
mod generation;
#[path = "../common/held_out.rs"]
mod held_out;
mod overlap;
#[path = "../common/parts.rs"]
mod parts;
mod sources;
mod tokenizer;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};
use plimsoll_probe::TrackingAllocator;
use plimsoll_sampler::{BatchPlanner, PaddedBudget, PlanConfig};
use plimsoll_step::WeightedAccumulator;
use plimsoll_train::{Draw, Index, Item, Job, Lengths, Part, Source, Validation};
use plimsoll_types::{Extent, StepShape};
use plimsoll_workloads::text::{BOUNDARY, Corpus, CorpusConfig, Cut, Gpt, GptConfig, Sections, Text, blank_generation};
use plimsoll_workloads::{Room, Shares};

use common::check_splits;
use elsewhere::check_stand_ins;
use held_out::with_inference;
use parts::{collated, length, parts};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const MODEL: GptConfig = GptConfig { layers: 2, width: 32, heads: 4 };

fn config(folder: &Path) -> CorpusConfig {
    CorpusConfig {
        shares: Shares::validating(0.2),
        vocabulary: 300,
        cut: Cut { longest: 96, overlap: 0 },
        ..CorpusConfig::new(folder.to_owned(), Room::boundless(folder))
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
fn a_rank_copies_the_sections_that_it_runs() {
    let packed = Part { packed: Some(vec![2, 1, 3, 1]), ..Part::new(vec![3, 1, 9, 2, 0, 5, 4], 400) };
    let padded = job();
    for (job, parts) in [(Text::packed(MODEL, Arc::new(fixtures()), 400), vec![packed]), (padded, parts(&job(), 3))] {
        let model = model(&job, &Device::flex());
        check_stand_ins(&job, &model, &Draw { epoch: 1, parts }, &(1..3), StepShape::new(13, 400));
    }
}

#[test]
fn every_split_of_a_step_has_the_gradient_of_the_undivided_one() {
    let (job, device) = (job(), Device::flex().autodiff());
    let (model, parts) = (model(&job, &device), parts(&job, 11));
    let whole = Part::new(parts.iter().flat_map(|part| part.ids.clone()).collect(), 96);
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
fn packed_samples_have_the_losses_and_the_gradient_of_padded_ones() {
    const ROW_LEN: u32 = 300;
    let (corpus, device) = (Arc::new(fixtures()), Device::flex().autodiff());
    let (padded, packed) = (Text::new(MODEL, Arc::clone(&corpus)), Text::packed(MODEL, corpus, ROW_LEN));
    let (model, ids) = (model(&padded, &device), (0..13).collect::<Vec<u64>>());
    let lengths: Vec<_> = ids.iter().map(|id| length(&padded, *id)).collect();
    // As many in each row as there is room for, in their order.
    let mut rows: Vec<Vec<u32>> = Vec::new();
    for length in &lengths {
        match rows.last_mut().filter(|row| row.iter().sum::<u32>() + length <= ROW_LEN) {
            Some(row) => row.push(*length),
            None => rows.push(vec![*length]),
        }
    }
    assert!(rows.len() < ids.len() / 2, "{rows:?}");
    let sizes = rows.iter().map(|row| u32::try_from(row.len()).unwrap()).collect();
    let block = [Part { packed: Some(sizes), ..Part::new(ids.clone(), ROW_LEN) }];
    let parts = [Part::new(ids, 96)];
    let step = |job: &Text, parts: &[Part], n: usize| {
        let mut accumulator = WeightedAccumulator::new(1);
        let loss = job.mean_loss(&model, job.batch(&collated(job, parts, LARGEST), 0..n, &device), &[]).mean;
        let part = accumulator.backward(&model, &loss, 1);
        accumulator.add(&model, part);
        (loss.into_scalar::<f64>(), accumulator.finish())
    };
    let (loss, gradients) = step(&padded, &parts, 13);
    let (of_block, of_rows) = step(&packed, &block, rows.len());
    assert!((of_block - loss).abs() < 1e-5 * loss, "{of_block} {loss}");
    check_splits(&model, &device, &gradients, [("packed".to_owned(), of_rows)]);
}

#[test]
fn padding_and_company_change_no_loss() {
    let (job, device) = (job(), Device::flex());
    let (model, parts) = (model(&job, &device), parts(&job, 11));
    let loss = |parts: &[Part], at: usize| {
        let batch = job.batch(&collated(&job, parts, LARGEST), at..at + 1, &device);
        job.mean_loss(&model, batch, &[]).mean.into_scalar::<f64>()
    };
    let whole = Part::new(parts.iter().flat_map(|part| part.ids.clone()).collect(), 96);
    for (at, id) in whole.ids.iter().enumerate() {
        let alone = loss(&[Part::new(vec![*id], length(&job, *id))], 0);
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
    let nats = surprise(&model, inputs, targets);
    for ((row, target), found) in logits.chunks_exact(logits.len() / 5).zip(&tokens[1..]).zip(nats) {
        let sum: f64 = row.iter().map(|it| f64::from(*it).exp()).sum();
        let expected = sum.ln() - f64::from(row[usize::from(*target)]);
        assert!((f64::from(found) - expected).abs() < 1e-5, "{found} {expected}");
    }
}

/// Returns how surprising each target is.
fn surprise(model: &Gpt, inputs: Tensor<2, Int>, targets: Tensor<2, Int>) -> Vec<f32> {
    let weights = Tensor::ones(targets.dims(), &targets.device());
    values(model.surprise(model.forward(inputs), targets, weights))
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
    let Lengths::Known(Index::One(index)) = job.source().lengths() else { panic!("lengths are known") };
    let planner = BatchPlanner::try_new(index, PaddedBudget([1024]), PlanConfig::default()).unwrap();
    let (mut model, mut optimizer) = (model(job, device), AdamConfig::new().init());
    let parts = (0..).flat_map(|epoch| {
        let mut batches = planner.epoch(epoch);
        let part = |ids: &[u32], edge| Part::new(ids.iter().map(|id| u64::from(*id)).collect(), edge);
        std::iter::from_fn(move || batches.next_batch().map(|it| part(it.ids, it.longest[0])))
    });
    for part in parts.take(n_steps) {
        let (n, buffer) = (part.ids.len(), collated(job, &[part], LARGEST));
        let loss = job.mean_loss(&model, job.batch(&buffer, 0..n, device), &[]).mean;
        model = optimizer.step(4e-3, model.clone(), GradientsParams::from_grads(loss.backward(), &model));
    }
    model
}

fn validate(job: &Text, model: &Gpt, device: &Device) -> Validation {
    with_inference(job.features(), |mut inference| job.validate(model, device, &mut inference)).unwrap().unwrap()
}

#[test]
fn the_default_model_is_far_better_than_the_baseline_after_a_hundred_steps() {
    let corpus = CorpusConfig {
        vocabulary: 512,
        cut: Cut { longest: 256, overlap: 0 },
        ..config(&plimsoll_fixtures::dir().join("text"))
    };
    let job = Text::new(GptConfig::default(), Arc::new(Corpus::read(&corpus).unwrap()));
    let device = Device::flex().autodiff();
    let Validation { metric, others, .. } = validate(&job, &trained(&job, 100, &device), &device);
    let names = [&metric, &others[0], &others[1]].map(|it| it.name.as_str());
    assert_eq!(names, ["bits per byte", "bits per byte (against a unigram)", "loss (nats/token)"]);
    assert!(metric.value < metric.baseline && metric.baseline < 0.8 * others[0].baseline, "{metric:?} {others:?}");
    assert!(others[0].value < 0.7 * others[0].baseline, "{others:?}");
}

#[test]
fn a_validation_is_the_mean_over_tokens_and_over_bytes() {
    let (corpus, device) = (Arc::new(fixtures()), Device::flex());
    let job = Text::new(MODEL, Arc::clone(&corpus));
    let model = model(&job, &device.clone().autodiff());
    let (valid, mut sum, mut n) = (model.valid(), 0.0, 0);
    let (sections, mut n_bytes) = (&corpus.validation.sections, 0);
    for id in (0..).take(sections.len()) {
        let piece = sections.piece(id);
        n_bytes += corpus.tokenizer.decode(&piece[1..]).unwrap().len();
        let (inputs, targets) = (integers(&piece[..piece.len() - 1], &device), integers(&piece[1..], &device));
        let nats = surprise(&valid, inputs, targets);
        sum += nats.iter().map(|it| f64::from(*it)).sum::<f64>();
        n += nats.len();
    }
    let Validation { metric, others, .. } = validate(&job, &model, &device.autodiff());
    assert!((others[1].value - sum / n as f64).abs() < 1e-5, "{others:?} {}", sum / n as f64);
    let bits = sum / std::f64::consts::LN_2 / n_bytes as f64;
    assert!((metric.value - bits).abs() < 1e-5, "{metric:?} {bits}");
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
    let Lengths::Known(Index::One(index)) = source.lengths() else { panic!("they are known") };
    assert_eq!((index.n_samples() as u64, index.longest()), (source.n_samples(), [96]));
    for sample in 0..source.n_samples() {
        let [length] = index.get(sample).unwrap();
        assert_eq!(Extent::new(length), source.read(0, sample).unwrap().extent());
    }
    let beyond = source.read(0, source.n_samples()).unwrap_err().to_string();
    assert!(beyond.contains(&format!("there are {} sections", source.n_samples())), "{beyond}");
}

#[test]
fn a_section_longer_than_its_edge_is_an_error() {
    let source = job().source();
    let items = [source.read(0, 3).unwrap()];
    let mut buffer = source.buffer(StepShape::new(1, 96));
    let edge = items[0].extent().edge() - 1;
    let error = source.collate(&Draw::of_extent(0, vec![3], edge), &items, &mut buffer).unwrap_err().to_string();
    assert_eq!(error, format!("read sample 3: it has {} tokens, its edge is {edge}", edge + 1));
}

#[test]
fn reading_is_the_same_every_time_and_splits_documents() {
    let (first, again) = (fixtures(), fixtures());
    assert_eq!((&first.train, &first.validation, &first.test), (&again.train, &again.validation, &again.test));
    assert_eq!(first.tokenizer.to_json().unwrap(), again.tokenizer.to_json().unwrap());
    let held = &first.validation.sections;
    let n_held = (0..).take(held.len()).filter(|id| held.piece(*id)[0] == BOUNDARY).count();
    assert!(8 < n_held && held.len() < first.train.len(), "{n_held}");
    assert_ne!(job().fingerprint(), Text::new(MODEL, Arc::new(shorter())).fingerprint());
}

#[test]
fn what_is_tested_on_is_seen_by_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    // Each document has a word of its own, which only a tokenizer that has seen it makes one token.
    let word = |at: usize| format!("tide{}", char::from(b'a' + u8::try_from(at).unwrap()).to_string().repeat(6));
    let write = |at: usize, word: &str| {
        fs::write(folder.path().join(format!("{at:02}.txt")), format!("{word} {word} {word} comes in. ").repeat(9))
            .unwrap();
    };
    (0..10).for_each(|at| write(at, &word(at)));
    let shares = Shares { validation: 0.2, test: 0.2 };
    let read = || Corpus::read(&CorpusConfig { shares, vocabulary: 2000, ..config(folder.path()) }).unwrap();
    let corpus = read();
    let tested = corpus.test.as_ref().unwrap();
    let text = |sections: &Sections| {
        (0..).take(sections.len()).map(|id| corpus.tokenizer.decode(sections.piece(id)).unwrap()).collect::<String>()
    };
    let of = |sections: &Sections| (0..10).filter(|at| text(sections).contains(&word(*at))).collect::<Vec<_>>();
    let parts = [of(&corpus.train), of(&corpus.validation.sections), of(&tested.sections)];
    assert_eq!(parts.each_ref().map(Vec::len), [6, 2, 2], "{parts:?}");
    let n_tokens = |at: usize| corpus.tokenizer.encode(&format!(" {}", word(at))).unwrap().len();
    assert!(parts[0].iter().all(|at| n_tokens(*at) == 1));
    assert!(parts[1].iter().chain(&parts[2]).all(|at| n_tokens(*at) > 1));
    // Other documents to test on change nothing else.
    parts[2].iter().for_each(|at| write(*at, "lighthouse"));
    let other = read();
    assert_eq!((&other.train, &other.validation), (&corpus.train, &corpus.validation));
    assert_eq!(other.tokenizer.to_json().unwrap(), corpus.tokenizer.to_json().unwrap());
    assert_ne!(other.test.unwrap(), *tested);
}

/// The same documents in shorter pieces.
fn shorter() -> Corpus {
    let config =
        CorpusConfig { cut: Cut { longest: 40, overlap: 0 }, ..config(&plimsoll_fixtures::dir().join("text")) };
    Corpus::tokenized(&config, fixtures().tokenizer).unwrap()
}
