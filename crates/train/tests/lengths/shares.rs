//! What the loader's steps hold of each task.

use std::sync::Arc;

use plimsoll_sampler::{SampleIndex, TaskMix};
use plimsoll_train::{Draw, Item, Lengths, Loader, LoaderConfig, LoaderPosition, Source, SourceError, Wanted};
use plimsoll_types::{Bytes, Extent, StepShape};

const N_SAMPLES: u64 = 6_000;
const EDGES: [u32; 4] = [8, 16, 24, 40];

/// Samples of three tasks, in shares of five, four and one in ten, the last of which are long.
struct Tasked;

struct Sample {
    length: u32,
    task: u16,
}

fn sample(id: u64) -> Sample {
    let task = [0, 0, 0, 0, 0, 1, 1, 1, 1, 2][usize::try_from(id % 10).unwrap()];
    let length = 1 + u32::try_from(id * id * 7 % 20).unwrap() + if task == 2 { 20 } else { 0 };
    Sample { length, task }
}

impl Item for Sample {
    fn extent(&self) -> Extent {
        self.length.into()
    }

    fn task(&self) -> u16 {
        self.task
    }

    fn bytes(&self) -> Bytes {
        Bytes(16)
    }
}

impl Source for Tasked {
    type Item = Sample;
    type Buffer = ();

    fn n_samples(&self) -> u64 {
        N_SAMPLES
    }

    fn lengths(&self) -> Lengths {
        let lengths: Vec<u32> = (0..N_SAMPLES).map(|id| sample(id).length).collect();
        let tasks: Vec<u16> = (0..N_SAMPLES).map(|id| sample(id).task).collect();
        Lengths::Known(SampleIndex::try_new([lengths]).unwrap().with_tasks(tasks).unwrap().into())
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<Sample, SourceError> {
        Ok(sample(id))
    }

    fn buffer_bytes(&self, _largest: StepShape) -> Bytes {
        Bytes(1)
    }

    fn buffer(&self, _largest: StepShape) {}

    fn collate(&self, _draw: &Draw, _items: &[Sample], _buffer: &mut ()) -> Result<(), SourceError> {
        Ok(())
    }
}

fn config(shares: Option<Vec<f64>>) -> LoaderConfig {
    LoaderConfig {
        cells: EDGES.to_vec().into(),
        tasks: TaskMix { shares, ..TaskMix::default() },
        ..LoaderConfig::cut(3, 64, 40, Bytes::mib(1))
    }
}

/// What each step of the first epoch holds of each task, when the sizes change as often as this and the run is resumed as
/// often as that.
fn composition(config: &LoaderConfig, change_every: usize, resume_every: usize) -> Vec<[f64; 3]> {
    let source = Arc::new(Tasked);
    let wanted =
        |at: usize| Wanted::Batches(vec![if (at / change_every).is_multiple_of(2) { 4 } else { 16 }; EDGES.len()]);
    let mut loader = Loader::try_new(&source, None, &wanted(0), config).unwrap();
    let (mut steps, mut seen) = (Vec::new(), vec![false; usize::try_from(N_SAMPLES).unwrap()]);
    loop {
        let step = loader.next(&wanted(steps.len())).unwrap();
        let mut counts = [0.0; 3];
        for task in &step.tasks {
            counts[usize::from(*task)] += 1.0;
        }
        for id in step.draw.ids() {
            assert!(!std::mem::replace(&mut seen[usize::try_from(id).unwrap()], true), "{id} comes twice");
        }
        steps.push(counts);
        let ends_epoch = step.ends_epoch;
        loader.recycle(step).unwrap();
        if ends_epoch {
            assert!(seen.into_iter().all(|seen| seen), "samples are lost");
            return steps;
        }
        if steps.len() % resume_every == 0 {
            let saved = serde_json::to_string(loader.position()).unwrap();
            assert!(saved.len() <= 4096, "{} bytes", saved.len());
            let position: LoaderPosition = serde_json::from_str(&saved).unwrap();
            loader = Loader::try_new(&source, Some(position), &wanted(steps.len()), config).unwrap();
        }
    }
}

#[test]
fn wanted_shares_hold_in_every_step_until_a_task_runs_out() {
    let shares = [0.4, 0.3, 0.3];
    for (change_every, resume_every) in [(usize::MAX, usize::MAX), (7, 11)] {
        let steps = composition(&config(Some(shares.to_vec())), change_every, resume_every);
        // The 600 samples of task 2 last for 2 000: 31 steps of 64.
        for (at, step) in steps[..31].iter().enumerate() {
            let off = step.iter().zip(shares).map(|(n, share)| (n - 64.0 * share).abs()).fold(0.0, f64::max);
            assert!(off <= 16.0, "step {at} has {step:?}");
        }
        assert!(steps[34..].iter().all(|step| step[2] < 1.0), "{:?}", &steps[34..]);
        let left: f64 = steps[34..].iter().map(|step| step[0]).sum::<f64>() / (64 * (steps.len() - 34)) as f64;
        assert!((left - 0.55).abs() < 0.03, "{left}");
    }
}

#[test]
fn steps_have_the_shares_of_the_data_unless_others_are_wanted() {
    for step in &composition(&config(None), usize::MAX, usize::MAX)[..90] {
        let off = step.iter().zip([0.5, 0.4, 0.1]).map(|(n, share)| (n - 64.0 * share).abs()).fold(0.0, f64::max);
        assert!(off <= 16.0, "{step:?}");
    }
}
