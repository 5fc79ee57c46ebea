//! Streams of several sources in wanted shares.

use std::sync::Arc;

use plimsoll_sampler::{EpochEnd, TaskMix};
use plimsoll_train::{
    BadSample, Draw, Item, Lengths, Loader, LoaderConfig, LoaderError, LoaderPosition, NamedSource, Source,
    SourceError, Wanted,
};
use plimsoll_types::{Bytes, Extent, StepShape};
use proptest::prelude::*;

const EDGES: [u32; 3] = [8, 16, 24];
const STEP: u32 = 8;

/// A stream of sources, some samples of which cannot be read, or not be collated.
#[derive(Default)]
struct Sourced {
    sources: Vec<NamedSource>,
    unreadable: Vec<u64>,
    loose: Vec<u64>,
}

impl Sourced {
    fn of(sizes: &[u64]) -> Self {
        let source =
            |(number, n_samples): (usize, &u64)| NamedSource { name: format!("of {number}"), n_samples: *n_samples };
        Self { sources: sizes.iter().enumerate().map(source).collect(), ..Self::default() }
    }

    /// The source of a sample.
    fn source(&self, id: u64) -> usize {
        let mut first = 0;
        let is_in = |it: &NamedSource| {
            first += it.n_samples;
            id < first
        };
        self.sources.iter().position(is_in).unwrap()
    }
}

struct Sample(u64);

impl Item for Sample {
    fn extent(&self) -> Extent {
        (1 + u32::try_from(self.0 * 7919 % 24).unwrap()).into()
    }

    fn bytes(&self) -> Bytes {
        Bytes(16)
    }
}

impl Source for Sourced {
    type Item = Sample;
    type Buffer = Vec<u64>;

    fn n_samples(&self) -> u64 {
        self.sources.iter().map(|it| it.n_samples).sum()
    }

    fn lengths(&self) -> Lengths {
        Lengths::Streamed { longest: 24.into() }
    }

    fn sources(&self) -> &[NamedSource] {
        &self.sources
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<Sample, SourceError> {
        assert!(id < self.n_samples(), "there is no sample {id}");
        let reason = || SourceError { sample_id: id, reason: "damaged".to_owned() };
        if self.unreadable.contains(&id) { Err(reason()) } else { Ok(Sample(id)) }
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(u64::from(largest.samples))
    }

    fn buffer(&self, _largest: StepShape) -> Vec<u64> {
        Vec::new()
    }

    fn collate(&self, draw: &Draw, items: &[Sample], buffer: &mut Vec<u64>) -> Result<(), SourceError> {
        assert!(draw.ids().eq(items.iter().map(|it| it.0)), "{draw:?}");
        buffer.clear();
        buffer.extend(draw.ids());
        let loose = buffer.iter().find(|id| self.loose.contains(id));
        loose.map_or(Ok(()), |id| Err(SourceError { sample_id: *id, reason: "loose".to_owned() }))
    }
}

fn config(shares: &[f64], ends: EpochEnd) -> LoaderConfig {
    LoaderConfig {
        cells: EDGES.to_vec().into(),
        tasks: TaskMix { shares: Some(shares.to_vec()), ends, normalize_shares: true, ..TaskMix::default() },
        look_ahead: 16,
        workers: 2,
        ..LoaderConfig::cut(3, STEP, 24, Bytes::mib(1))
    }
}

fn wanted() -> Wanted {
    Wanted::Batches(vec![4; EDGES.len()])
}

/// A step: its epoch, its samples, what was left out, and whether the epoch ends with it.
type Told = (u64, Vec<u64>, Vec<u64>, bool);

/// Some steps of a loader that goes on from its position as often as this.
fn steps(source: &Arc<Sourced>, config: &LoaderConfig, n_steps: usize, resume_every: usize) -> Vec<Told> {
    let mut loader = Loader::try_new(source, None, &wanted(), config).unwrap();
    let mut told = Vec::new();
    while told.len() < n_steps {
        let step = loader.next(&wanted()).unwrap();
        told.push((step.draw.epoch, step.buffer.clone(), step.skipped.clone(), step.ends_epoch));
        loader.recycle(step).unwrap();
        if told.len() % resume_every == 0 {
            let saved = serde_json::to_string(loader.position()).unwrap();
            let position: LoaderPosition = serde_json::from_str(&saved).unwrap();
            loader = Loader::try_new(source, Some(position), &wanted(), config).unwrap();
        }
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_stream_of_sources_ends_its_epochs_as_it_should_however_often_it_is_resumed(
        sources in prop::collection::vec((1u32..9, 1u64..40), 2..5),
        ends in prop_oneof![Just(EpochEnd::AllOnce), Just(EpochEnd::FirstExhausted), Just(EpochEnd::LastExhausted)],
        resume_every in 1usize..9
    ) {
        let (shares, sizes): (Vec<f64>, Vec<u64>) = sources.iter().map(|it| (f64::from(it.0), it.1)).unzip();
        let (source, config) = (Arc::new(Sourced::of(&sizes)), config(&shares, ends));
        let whole = steps(&source, &config, 40, usize::MAX);
        prop_assert_eq!(&whole, &steps(&source, &config, 40, resume_every));
        let mut times = vec![0u64; usize::try_from(source.n_samples()).unwrap()];
        for (epoch, ids, skipped, ends_epoch) in whole {
            for id in ids {
                times[usize::try_from(id).unwrap()] += 1;
            }
            prop_assert!(skipped.is_empty());
            if !ends_epoch {
                continue;
            }
            let (least, most) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
            let mut of_sources = vec![Vec::new(); sizes.len()];
            (0..).zip(&mut times).for_each(|(id, n)| of_sources[source.source(id)].push(std::mem::take(n)));
            match ends {
                EpochEnd::AllOnce => prop_assert_eq!((least, most), (1, 1), "epoch {}", epoch),
                EpochEnd::FirstExhausted => prop_assert!(most == 1 && of_sources.iter().any(|it| it.iter().all(|n| *n == 1))),
                EpochEnd::LastExhausted => {
                    prop_assert!(least >= 1);
                    for it in &of_sources {
                        prop_assert!(it.iter().max().unwrap() - it.iter().min().unwrap() <= 1, "{:?}", it);
                    }
                }
            }
        }
    }
}

#[test]
fn shares_hold_in_every_stretch_of_a_stream_whose_small_source_comes_again() {
    // A fifth of the samples is to be seven tenths of what is drawn.
    let (source, shares) = (Arc::new(Sourced::of(&[100, 400])), [0.7, 0.3]);
    let steps = steps(&source, &config(&shares, EpochEnd::LastExhausted), 160, 33);
    let of_first: Vec<f64> =
        steps.iter().map(|(_, ids, ..)| ids.iter().filter(|id| **id < 100).count() as f64).collect();
    for stretch in of_first.windows(20) {
        let n = 20.0 * f64::from(STEP);
        let off = stretch.iter().sum::<f64>() - 0.7 * n;
        // What the look-ahead buffer holds at either end of the stretch.
        assert!(off.abs() <= 16.0, "{off} of {n}");
    }
}

#[test]
fn a_sample_that_comes_twice_in_a_step_is_left_out_twice() {
    for (unreadable, loose) in [(vec![0], Vec::new()), (Vec::new(), vec![0])] {
        let source = Sourced { unreadable, loose, ..Sourced::of(&[2, 30]) };
        let config = LoaderConfig { bad_sample: BadSample::Skip, ..config(&[0.8, 0.2], EpochEnd::LastExhausted) };
        let steps = steps(&Arc::new(source), &config, 20, usize::MAX);
        assert!(steps.iter().any(|(_, ids, ..)| ids.iter().filter(|id| **id == 1).count() > 1), "{steps:?}");
        assert!(steps.iter().all(|(_, ids, ..)| !ids.contains(&0)), "{steps:?}");
        assert!(steps.iter().any(|(.., skipped, _)| skipped.contains(&0)), "{steps:?}");
    }
}

#[test]
fn shares_of_sources_that_cannot_be_are_refused() {
    let refused = |source: Sourced, shares: &[f64]| {
        let made = Loader::try_new(&Arc::new(source), None, &wanted(), &config(shares, EpochEnd::AllOnce));
        made.err().unwrap().to_string()
    };
    assert!(refused(Sourced::of(&[3, 0]), &[0.5, 0.5]).contains("source 1 has no samples"));
    assert!(refused(Sourced::of(&[3, 4]), &[1.0]).contains("there are 1 task shares for 2 tasks"));
    // A position of other shares, or of none.
    let source = Arc::new(Sourced::of(&[30, 40]));
    let position =
        |config: &LoaderConfig| Loader::try_new(&source, None, &wanted(), config).unwrap().position().clone();
    let (mixed, alone) = (
        config(&[0.5, 0.5], EpochEnd::AllOnce),
        LoaderConfig { tasks: TaskMix::default(), ..config(&[], EpochEnd::AllOnce) },
    );
    for (of, with) in [(&mixed, &alone), (&alone, &mixed)] {
        let error = Loader::try_new(&source, Some(position(of)), &wanted(), with).err().unwrap();
        assert!(matches!(error, LoaderError::OtherPosition), "{error}");
    }
}
