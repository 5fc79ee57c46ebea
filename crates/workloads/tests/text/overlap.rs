//! Pieces of a section that repeat the end of the one before.

use std::sync::Arc;

use plimsoll_step::WeightedAccumulator;
use plimsoll_train::{Item, Job, Loader, LoaderConfig, LoaderPosition, Part, Source, StepUnit, Wanted};
use plimsoll_types::{Bytes, Cells, StepShape};
use plimsoll_workloads::text::{Corpus, CorpusConfig, Cut, Text, TextSource, Tokenizer};
use proptest::prelude::*;

use burn::module::Module;
use burn::tensor::Device;

use crate::common::check_splits;
use crate::parts::collated;
use crate::{MODEL, config, integers, model, surprise, validate};

const LONGEST: u32 = 40;
const OVERLAP: u32 = 12;

fn corpus(cut: Cut) -> Corpus {
    Corpus::read(&CorpusConfig { cut, ..config(&plimsoll_fixtures::dir().join("text")) }).unwrap()
}

fn overlapping() -> Arc<Corpus> {
    Arc::new(corpus(Cut { longest: LONGEST, overlap: OVERLAP }))
}

/// The first pieces that repeat something, and the first that do not.
fn both_kinds(corpus: &Corpus) -> Vec<u32> {
    let of_kind = |repeats: bool| {
        let ids = (0..).take(corpus.train.len());
        ids.filter(move |id| (0 < corpus.train.n_repeated(*id)) == repeats).take(6)
    };
    of_kind(true).chain(of_kind(false)).collect()
}

#[test]
fn a_prediction_sees_what_its_piece_repeats_and_is_counted_once() {
    let (corpus, device) = (overlapping(), Device::flex());
    let job = Text::new(MODEL, Arc::clone(&corpus));
    let model = model(&job, &device);
    for id in both_kinds(&corpus) {
        let (piece, n_repeated) = (corpus.train.piece(id), corpus.train.n_repeated(id));
        let surprise = |piece: &[u16]| {
            surprise(&model, integers(&piece[..piece.len() - 1], &device), integers(&piece[1..], &device))
        };
        let mean = |nats: &[f32]| nats.iter().map(|it| f64::from(*it)).sum::<f64>() / nats.len() as f64;
        let buffer = collated(&job, &[Part::new(vec![id.into()], LONGEST)], StepShape::new(1, LONGEST));
        let loss = job.mean_loss(&model, job.batch(&buffer, 0..1, &device), &[]).mean.into_scalar::<f64>();
        let expected = mean(&surprise(piece)[n_repeated..]);
        assert!((loss - expected).abs() < 1e-5, "{id}: {loss} {expected}");
        let without_context = mean(&surprise(corpus.train.predicted(id)));
        assert_eq!((loss - without_context).abs() < 1e-5, n_repeated == 0, "{id}: {loss} {without_context}");
    }
}

#[test]
fn every_split_of_a_packed_step_has_the_gradient_of_the_undivided_padded_one() {
    const ROW_LEN: u32 = 100;
    let (corpus, device) = (overlapping(), Device::flex().autodiff());
    let (padded, packed) = (Text::new(MODEL, Arc::clone(&corpus)), Text::packed(MODEL, Arc::clone(&corpus), ROW_LEN));
    let (model, ids) = (model(&padded, &device), both_kinds(&corpus));
    let counted: Vec<_> = ids.iter().map(|id| corpus.train.n_predicted(*id) as u64).collect();
    let ids: Vec<u64> = ids.into_iter().map(u64::from).collect();
    let gradients = |job: &Text, part: Part, sizes: &[usize]| {
        let (buffer, mut row) = (collated(job, std::slice::from_ref(&part), StepShape::new(12, ROW_LEN)), 0);
        let samples_of: Vec<_> = part.row_sizes().collect();
        let mut accumulator = WeightedAccumulator::new(counted.iter().sum());
        let mut counted = counted.iter();
        for n in sizes {
            let rows = row..row + n;
            let units = counted.by_ref().take(samples_of[rows.clone()].iter().sum()).sum();
            let loss = job.mean_loss(&model, job.batch(&buffer, rows.clone(), &device), &[]).mean;
            let part = accumulator.backward(&model, &loss, units);
            accumulator.add(&model, part);
            row = rows.end;
        }
        accumulator.finish()
    };
    let undivided = gradients(&padded, Part::new(ids.clone(), LONGEST), &[12]);
    let rows = Part { packed: Some(vec![2; 6]), ..Part::new(ids, ROW_LEN) };
    let splits =
        [vec![6], vec![1; 6], vec![2, 1, 3]].map(|it| (format!("{it:?}"), gradients(&packed, rows.clone(), &it)));
    check_splits(&model, &device, &undivided, splits);
}

#[test]
fn a_validation_counts_what_is_predicted_and_sees_what_is_repeated() {
    let (corpus, device) = (overlapping(), Device::flex());
    let job = Text::new(MODEL, Arc::clone(&corpus));
    let model = model(&job, &device.clone().autodiff());
    let (valid, sections) = (model.valid(), &corpus.validation.sections);
    let (mut sum, mut n_tokens) = (0.0, 0);
    for id in (0..).take(sections.len()) {
        let (piece, n_repeated) = (sections.piece(id), sections.n_repeated(id));
        let (inputs, targets) = (integers(&piece[..piece.len() - 1], &device), integers(&piece[1..], &device));
        let nats = surprise(&valid, inputs, targets);
        sum += nats[n_repeated..].iter().map(|it| f64::from(*it)).sum::<f64>();
        n_tokens += nats.len() - n_repeated;
    }
    assert_eq!(n_tokens, sections.targets().count());
    let nats = &validate(&job, &model, &device.autodiff()).others[1];
    assert!((nats.value - sum / n_tokens as f64).abs() < 1e-5, "{nats:?} {}", sum / n_tokens as f64);
    // The baselines know one token before each, so that it is the same to them where sections are cut.
    let apart = corpus_apart();
    let yardstick = |corpus: &Corpus| corpus.validation.yardstick((0..).take(corpus.validation.sections.len()));
    let (one, other) = (yardstick(&corpus), yardstick(&apart));
    assert_eq!((one.n_bytes, one.n_tokens), (other.n_bytes, other.n_tokens));
    assert!((one.unigram / other.unigram - 1.0).abs() < 1e-9, "{one:?} {other:?}");
}

fn corpus_apart() -> Corpus {
    corpus(Cut { longest: LONGEST, overlap: 0 })
}

/// What the loader of a run draws from, in batches of up to three samples or rows.
fn loader(source: &Arc<TextSource>, edge: u32, unit: StepUnit, position: Option<LoaderPosition>) -> Loader<TextSource> {
    let config = LoaderConfig {
        unit,
        cells: Cells::from(vec![edge]),
        ..LoaderConfig::cut(7, if unit == StepUnit::Samples { 5 } else { 150 }, edge, Bytes::mib(1))
    };
    Loader::try_new(source, position, &Wanted::Batches(vec![3]), &config).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Padded or packed, in steps of whatever size, and however often the run goes on.
    #[test]
    fn an_epoch_counts_every_token_once(
        (longest, overlap) in (2_u32..60).prop_flat_map(|it| (Just(it), 0..it)),
        is_packed: bool,
        unit in prop::sample::select(vec![StepUnit::Samples, StepUnit::Positions]),
        resumed_at in 0_usize..12,
    ) {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..4 {
            let text = format!("Document {at} is about the tide, the tide and the other tide. ").repeat(1 + at);
            std::fs::write(folder.path().join(format!("{at}.txt")), text).unwrap();
        }
        let tokenizer = Tokenizer::train(std::iter::empty(), 257).unwrap();
        let cut = Cut { longest, overlap };
        let corpus = Corpus::tokenized(&CorpusConfig { cut, ..config(folder.path()) }, tokenizer).unwrap();
        let corpus = Arc::new(corpus);
        let row_len = is_packed.then_some(longest + 20);
        let job = if let Some(it) = row_len { Text::packed(MODEL, Arc::clone(&corpus), it) } else { Text::new(MODEL, Arc::clone(&corpus)) };
        let (source, edge) = (job.source(), row_len.unwrap_or(longest));
        let mut loader_of = loader(&source, edge, unit, None);
        let (mut targets, mut n_counted) = (Vec::new(), 0);
        for at in 0.. {
            if at == resumed_at {
                loader_of = loader(&source, edge, unit, Some(loader_of.position().clone()));
            }
            let samples = loader_of.next(&Wanted::Batches(vec![3])).unwrap();
            n_counted += samples.counted.iter().sum::<u64>();
            for (id, counted) in samples.draw.ids().zip(&samples.counted) {
                let predicted = &corpus.train.predicted(u32::try_from(id).unwrap())[1..];
                prop_assert_eq!(source.read(0, id).unwrap().counted_positions(), *counted);
                prop_assert_eq!(predicted.len() as u64, *counted);
                targets.push((id, predicted));
            }
            let ends = samples.ends_epoch;
            loader_of.recycle(samples).unwrap();
            if ends {
                break;
            }
        }
        // In the order of their sections, as each piece follows the one before.
        targets.sort_unstable();
        let drawn: Vec<u16> = targets.into_iter().flat_map(|it| it.1.iter().copied()).collect();
        prop_assert_eq!(n_counted, drawn.len() as u64);
        prop_assert!(corpus.train.targets().eq(drawn));
    }
}
