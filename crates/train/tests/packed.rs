//! Rows of several samples, from a source to the steps of a run.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use plimsoll_sampler::{EpochEnd, SampleIndex, TaskMix};
use plimsoll_train::{
    Draw, EndedEpoch, Item, Lengths, Loader, LoaderConfig, LoaderError, LoaderPosition, Source, SourceError, StepUnit,
    Wanted,
};
use plimsoll_types::{Bytes, Extent, StepShape};
use proptest::prelude::*;

const ROW_LEN: u32 = 24;
const N_SAMPLES: u64 = 60;

/// Samples of 1 to 23 positions, some of which cannot be read.
struct Words {
    bad: Vec<u64>,
    tasks: Option<Vec<u16>>,
}

struct Word(u64);

fn length(id: u64) -> u32 {
    1 + u32::try_from(id * 7 % 23).unwrap()
}

impl Item for Word {
    fn extent(&self) -> Extent {
        (length(self.0)).into()
    }
}

impl Source for Words {
    type Item = Word;
    type Buffer = Vec<Vec<u64>>;

    fn n_samples(&self) -> u64 {
        N_SAMPLES
    }

    fn lengths(&self) -> Lengths {
        let index = SampleIndex::try_new([(0..N_SAMPLES).map(length).collect::<Vec<_>>()]).unwrap();
        let index = match &self.tasks {
            Some(tasks) => index.with_tasks(tasks.clone()).unwrap(),
            None => index,
        };
        Lengths::Packed { index, row_len: ROW_LEN }
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<Word, SourceError> {
        let is_bad = self.bad.contains(&id);
        if is_bad { Err(SourceError { sample_id: id, reason: "it is damaged".to_owned() }) } else { Ok(Word(id)) }
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(largest.positions())
    }

    fn buffer(&self, largest: StepShape) -> Vec<Vec<u64>> {
        Vec::with_capacity(largest.samples as usize)
    }

    /// Holds the rows as they are.
    fn collate(&self, draw: &Draw, items: &[Word], buffer: &mut Vec<Vec<u64>>) -> Result<(), SourceError> {
        let room = buffer.capacity();
        buffer.clear();
        let mut rest = items.iter().map(|it| it.0);
        for part in &draw.parts {
            assert_eq!(part.extent.edge(), ROW_LEN);
            buffer.extend(part.row_sizes().map(|n| rest.by_ref().take(n).collect()));
        }
        assert_eq!((rest.next(), buffer.capacity()), (None, room), "a step has more rows than its buffer");
        Ok(())
    }
}

fn config(unit: StepUnit, size: u32) -> LoaderConfig {
    let edges = vec![ROW_LEN];
    LoaderConfig {
        unit,
        cells: edges.into(),
        bad_sample: plimsoll_train::BadSample::Skip,
        ..LoaderConfig::cut(3, size, ROW_LEN, Bytes::mib(1))
    }
}

/// The rows of a step, how many each of its micro-batches has, what it left out, whether it ends an epoch, and where the next
/// one begins.
type Told = (Vec<Vec<u64>>, Vec<usize>, Vec<u64>, bool, LoaderPosition);

fn step(loader: &mut Loader<Words>, most: u32) -> Told {
    let samples = loader.next(&Wanted::Batches(vec![most])).unwrap();
    let sizes = samples.draw.parts.iter().map(plimsoll_train::Part::n_rows).collect();
    let told = (samples.buffer.clone(), sizes, samples.skipped.clone(), samples.ends_epoch, loader.position().clone());
    loader.recycle(samples).unwrap();
    told
}

fn loader(bad: &[u64], config: &LoaderConfig, position: Option<LoaderPosition>) -> Loader<Words> {
    let source = Arc::new(Words { bad: bad.to_vec(), tasks: None });
    Loader::try_new(&source, position, &Wanted::Batches(vec![2]), config).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the memory allows, and however often the run goes on: every sample once in an epoch, in the same rows.
    #[test]
    fn an_epoch_has_every_sample_once_whatever_fits(
        unit in prop::sample::select(vec![StepUnit::Samples, StepUnit::Positions]),
        size in 1u32..90,
        sizes in prop::collection::vec(1u32..6, 1..40),
        resumed_at in 0usize..40,
        bad in prop::collection::btree_set(0..N_SAMPLES, 0..4),
    ) {
        let (config, bad) = (config(unit, size), bad.into_iter().collect::<Vec<_>>());
        let (mut first, mut other) = (loader(&bad, &config, None), loader(&bad, &config, None));
        let (mut seen, mut n_epochs) = (Vec::new(), 0);
        for at in 0.. {
            let most = sizes[at % sizes.len()];
            let (rows, batches, skipped, ends_epoch, position) = step(&mut first, most);
            prop_assert!(rows.iter().all(|row| !row.is_empty()));
            prop_assert!(rows.iter().all(|row| row.iter().map(|id| length(*id)).sum::<u32>() <= ROW_LEN));
            prop_assert!(batches.iter().all(|n| *n <= most as usize), "{:?} of {}", batches, most);
            prop_assert_eq!(&rows, &step(&mut other, 2).0, "the rows do not depend on the memory");
            if at == resumed_at {
                other = loader(&bad, &config, Some(position));
            }
            seen.extend(rows.into_iter().flatten().chain(skipped));
            if ends_epoch {
                seen.sort_unstable();
                prop_assert!(seen.drain(..).eq(0..N_SAMPLES));
                n_epochs += 1;
            }
            if n_epochs == 2 {
                break;
            }
        }
    }
}

#[test]
fn a_step_of_positions_has_as_many_on_average_and_a_batch_as_many_rows_as_fit() {
    let positions = |rows: &[Vec<u64>]| rows.iter().flatten().map(|id| length(*id)).sum::<u32>();
    let mut loader_of = loader(&[], &config(StepUnit::Positions, 100), None);
    let taken: Vec<_> = (0..4).map(|_| positions(&step(&mut loader_of, 9).0)).collect();
    let sum: u32 = taken.iter().sum();
    assert!((400..400 + ROW_LEN).contains(&sum), "{taken:?}");
    let mut loader_of = loader(&[], &config(StepUnit::BatchOfPositions, 200), None);
    for (most, expected) in [(2, 2), (5, 5), (9, 9), (50, 9)] {
        assert_eq!(step(&mut loader_of, most).1, [expected], "at most {most} rows, of 200 positions in all");
    }
}

#[test]
fn rows_of_several_tasks_have_the_shares_that_are_asked_for() {
    // A quarter of the samples belong to the first task.
    let tasks: Vec<u16> = (0..N_SAMPLES).map(|id| u16::from(id % 4 != 0)).collect();
    let mut config = config(StepUnit::Samples, 10);
    config.tasks = TaskMix { shares: Some(vec![0.5, 0.5]), ends: EpochEnd::LastExhausted, ..TaskMix::default() };
    let source = Arc::new(Words { bad: Vec::new(), tasks: Some(tasks.clone()) });
    let of = |position| Loader::try_new(&source, position, &Wanted::Batches(vec![2]), &config).unwrap();
    let (mut loader, mut resumed) = (of(None), None);
    for _ in 0..2 {
        let (mut seen, mut ends_epoch) = (Vec::new(), false);
        while !ends_epoch {
            let (rows, .., ends, position) = step(&mut loader, 3);
            if let Some(mut resumed) = resumed.replace(of(Some(position))) {
                assert_eq!(step(&mut resumed, 2).0, rows);
            }
            seen.extend(rows.concat());
            ends_epoch = ends;
        }
        let of_task = |id: &u64, task: u16| tasks[usize::try_from(*id).unwrap()] == task;
        let n_of = |task| seen.iter().filter(|id| of_task(id, task)).count();
        // Those of the first come three times, the others once.
        assert_eq!([n_of(0), n_of(1)], [45, 45]);
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.into_iter().eq(0..N_SAMPLES));
    }
}

#[test]
fn a_last_step_that_is_none_is_left_out_where_that_is_asked_for() {
    let whole = |drop_last| LoaderConfig { drop_last, ..config(StepUnit::Samples, 25) };
    let (mut all, mut whole_ones) = (loader(&[], &whole(false), None), loader(&[], &whole(true), None));
    let mut resumed = None;
    for _ in 0..3 {
        let (first, second, last) = (step(&mut all, 9), step(&mut all, 9), step(&mut all, 9));
        assert!(!first.3 && !second.3 && last.3);
        let found = [step(&mut whole_ones, 9), step(&mut whole_ones, 9)];
        assert_eq!([&found[0].0, &found[1].0], [&first.0, &second.0]);
        if let Some(position) = resumed.replace(found[1].4.clone()) {
            // The run goes on behind its last whole step of the epoch before.
            assert_eq!(step(&mut loader(&[], &whole(true), Some(position)), 9).0, first.0);
        }
    }
    let samples = whole_ones.next(&Wanted::Batches(vec![9])).unwrap();
    assert_eq!((samples.draw.epoch, samples.ended), (3, vec![EndedEpoch { epoch: 2, dropped: 10 }]));
    let kept = whole_ones.mates_kept().unwrap();
    assert!(kept.reachable.is_none() && 0.0 < kept.kept && kept.kept < 1.0, "{kept:?}");
    let mut none = loader(&[], &LoaderConfig { drop_last: true, ..config(StepUnit::Samples, 100) }, None);
    assert!(matches!(none.next(&Wanted::Batches(vec![9])), Err(LoaderError::DropsAll { n_samples: N_SAMPLES })));
}
