//! The example of a job of one's own, as it stands.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::iter::repeat;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use burn::module::ParamGroup;
use burn::nn::{Linear, LinearConfig};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, MuonConfig, SgdConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_probe::DeviceKind;
use plimsoll_train::{
    Checkpoint, Drawn, Existing, FitConfig, InMemory, Job, JobOptimizer, Loss, RunDir, Shell, TrainError, fit,
};
use plimsoll_types::{EndReason, Event, StepDone, StepShape};

#[path = "../examples/own_job.rs"]
#[expect(dead_code, reason = "a program ends where its tests begin")]
mod example;

fn steps(events: &[Event]) -> Vec<&StepDone> {
    events.iter().filter_map(|event| if let Event::StepDone(done) = event { Some(done) } else { None }).collect()
}

/// Rows without a method that has a default, but for those of the optimizer.
struct Rows {
    samples: Arc<InMemory<Vec<f32>>>,
    optimizer: fn() -> JobOptimizer,
    max_norm: Option<f64>,
}

impl Job for Rows {
    type Source = InMemory<Vec<f32>>;
    type Model = Linear;
    type Batch = Tensor<2>;

    fn source(&self) -> Arc<InMemory<Vec<f32>>> {
        Arc::clone(&self.samples)
    }

    fn optimizer(&self) -> JobOptimizer {
        (self.optimizer)()
    }

    fn max_norm(&self) -> Option<f64> {
        self.max_norm
    }

    fn init(&self, device: &Device) -> Linear {
        LinearConfig::new(1, 8).init(device)
    }

    fn batch(&self, drawn: &Drawn<Vec<f32>>, range: Range<usize>, device: &Device) -> Tensor<2> {
        let edge = drawn.edge(&range) as usize;
        let padded = |row: &Vec<f32>| row.iter().copied().chain(repeat(0.0)).take(edge).collect::<Vec<_>>();
        let values: Vec<_> = drawn.samples(range).flat_map(padded).collect();
        Tensor::<1>::from_floats(values.as_slice(), device).reshape([-1, 1])
    }

    fn mean_loss(&self, layer: &Linear, values: Tensor<2>, _task_weights: &[f32]) -> Loss {
        layer.forward(values).powi_scalar(2).mean().into()
    }
}

fn rows(n: usize) -> Rows {
    let rows = (0..n).map(|at| vec![0.5; 1 + at % 6]);
    of(InMemory::padded(rows, |row| u32::try_from(row.len()).unwrap()).unwrap())
}

fn of(rows: InMemory<Vec<f32>>) -> Rows {
    Rows { samples: Arc::new(rows), optimizer: || AdamConfig::new().build().into(), max_norm: None }
}

/// Muon for the matrix, and stochastic gradient descent for what is none.
fn groups() -> JobOptimizer {
    let descent = SgdConfig::new().with_momentum(Some(MomentumConfig::new())).build();
    JobOptimizer::new(MuonConfig::new().build(), None).with_group(ParamGroup::from_path("bias"), descent, None)
}

#[test]
fn what_a_job_does_not_say_is_made_of_its_model_and_its_samples() {
    let job = rows(12);
    assert_eq!(job.name(), "Rows");
    assert!(job.program().starts_with("Rows with 16 parameters in 2 tensors, checksum "), "{}", job.program());
    assert!(job.fingerprint().contains(" on 12 samples, lengths "), "{}", job.fingerprint());
    assert_ne!(job.fingerprint(), rows(13).fingerprint());
    // Batches are planned of the samples that are short enough.
    let (device, shape) = (Device::flex().autodiff(), StepShape::new(7, 3));
    assert_eq!(job.blank_batch(shape, &device).dims(), [21, 1]);
    assert_eq!(job.blank_forward(&job.init(&device), shape, &device).dims(), [1]);
}

#[test]
fn samples_of_many_lengths_are_padded_and_each_comes_once() {
    let (job, folder) = (rows(50), tempfile::tempdir().unwrap());
    let mut run_dir = RunDir::open(&folder.path().join("run"), Existing::Refuse).unwrap();
    let shell = Shell::open(DeviceKind::Flex, None, &mut run_dir, Existing::Refuse).unwrap();
    let config = FitConfig::padded(DeviceKind::Flex, 12, 16, vec![2, 4, 6]).unwrap();
    assert_eq!(fit(&job, &config, shell).unwrap().reason, EndReason::Completed);
    let events = run_dir.events().unwrap();
    let mut first_epoch: Vec<_> = steps(&events)
        .iter()
        .filter(|it| it.epoch == 0)
        .flat_map(|it| &it.micro_batches)
        .flat_map(|it| &it.ids)
        .collect();
    first_epoch.sort_unstable();
    assert!(first_epoch.into_iter().copied().eq(0..50));
}

/// Trains so many steps, from the start or from where the run before has ended, and returns the weights after the last.
fn trained(job: &Rows, folder: &Path, n_steps: u64, existing: Existing) -> Result<Vec<f32>, TrainError> {
    let mut run_dir = RunDir::open(folder, existing)?;
    let shell = Shell::open(DeviceKind::Flex, None, &mut run_dir, existing).unwrap();
    let config = FitConfig { seed: 3, ..FitConfig::padded(DeviceKind::Flex, n_steps, 16, vec![2, 4, 6]).unwrap() };
    assert_eq!(fit(job, &config, shell)?.step, n_steps);
    let model = Checkpoint::of_any(run_dir.path())?.load_model(job.init(&Device::flex()))?;
    let [weight, bias] = [model.weight.val().flatten(0, 1), model.bias.as_ref().unwrap().val()];
    Ok(Tensor::cat(vec![weight, bias], 0).into_data().iter().collect())
}

#[test]
fn a_job_brings_any_optimizer_and_no_run_goes_on_with_another() {
    let folder = tempfile::tempdir().unwrap();
    let (grouped, path) = (Rows { optimizer: groups, ..rows(50) }, folder.path().join("run"));
    let first = trained(&grouped, &path, 6, Existing::Refuse).unwrap();
    let later = trained(&grouped, &path, 12, Existing::Resume).unwrap();
    assert!(first.iter().zip(&later).all(|(first, later)| 0.0 < (first - later).abs()), "{first:?} {later:?}");
    let error = trained(&rows(50), &path, 18, Existing::Resume).unwrap_err().to_string();
    assert!(error.contains("`optimizer`") && error.contains("Muon, Sgd") && error.contains("Adam"), "{error}");
}

#[test]
fn a_gradient_is_scaled_to_the_norm_that_a_job_allows() {
    let descent = || SgdConfig::new().build().into();
    // The same run before and after, since other tests draw weights meanwhile.
    let trained = |max_norm| {
        let folder = tempfile::tempdir().unwrap();
        let (job, path) = (Rows { optimizer: descent, max_norm, ..rows(50) }, folder.path().join("run"));
        [(1, Existing::Refuse), (20, Existing::Resume)].map(|(n, existing)| trained(&job, &path, n, existing).unwrap())
    };
    // Steps of a billionth at most are lost in weights of 32 bits.
    let [first, last] = trained(Some(1e-9));
    assert_eq!(first, last);
    let [first, last] = trained(None);
    assert_ne!(first, last);
}

#[test]
fn a_job_without_samples_is_refused_in_words() {
    let none = of(InMemory::of_one_size([]));
    let folder = tempfile::tempdir().unwrap();
    let mut run_dir = RunDir::open(&folder.path().join("run"), Existing::Refuse).unwrap();
    let shell = Shell::open(DeviceKind::Flex, None, &mut run_dir, Existing::Refuse).unwrap();
    let error = fit(&none, &FitConfig::of_one_size(DeviceKind::Flex, 3, 4).unwrap(), shell).unwrap_err();
    assert!(error.to_string().contains("no sample"), "{error}");
}

#[test]
fn the_smallest_job_trains_and_is_small() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/own_job.rs")).unwrap();
    assert!(text.lines().count() <= 60, "{} lines", text.lines().count());

    let folder = tempfile::tempdir().unwrap();
    let outcome = example::train(&folder.path().join("run"), 30).unwrap();
    assert_eq!((outcome.reason, outcome.step), (EndReason::Completed, 30));
    let run_dir = RunDir::open(&folder.path().join("run"), Existing::Resume).unwrap();
    let events = run_dir.events().unwrap();
    let steps = steps(&events);
    assert_eq!(steps.len(), 30);
    // Steps of an epoch of 100 samples: three of 32 and one of 4. Whatever weights were drawn, an epoch is better than the
    // first was.
    let of_epoch = |epoch: usize| steps[4 * epoch..4 * epoch + 3].iter().map(|it| it.loss).sum::<f64>();
    assert!(of_epoch(6) < of_epoch(0), "{} {}", of_epoch(0), of_epoch(6));
    assert_eq!(steps[..4].iter().map(|it| it.n_samples()).collect::<Vec<_>>(), [32, 32, 32, 4]);
    assert!(!events.iter().any(|it| matches!(it, Event::Validated(_))));
}
