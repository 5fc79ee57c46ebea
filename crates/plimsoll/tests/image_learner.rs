//! The program of an example, with half of the memory that its fixed batch needs.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../examples/learner/mod.rs"]
mod learner;

use std::sync::{Arc, Mutex};
use std::thread;

use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::metric::{Metric, MetricMetadata, MetricName, SerializedEntry};
use burn::train::{Learner, SupervisedTraining, TrainingStrategy};
use learner::data::{ImageBatch, ImageBatcher, images};
use learner::model::Net;
use learner::quiet::Quiet;
use plimsoll::{Bytes, TrackingAllocator};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_train::warm_up;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const N_IMAGES: usize = 500;
const N_EPOCHS: usize = 2;

/// Notes how far each epoch has come.
#[derive(Clone, Default)]
struct Trained(Arc<Mutex<Vec<usize>>>);

impl Metric for Trained {
    type Input = ();

    fn name(&self) -> MetricName {
        Arc::new("Trained".to_owned())
    }

    fn update(&mut self, (): &(), event: &MetricMetadata) -> Result<SerializedEntry, burn::tensor::TensorReadError> {
        self.0.lock().unwrap().push(event.progress.items_processed);
        self.compute()
    }

    fn compute(&mut self) -> Result<SerializedEntry, burn::tensor::TensorReadError> {
        Ok(SerializedEntry::not_available(None))
    }

    fn clear(&mut self) {}
}

fn training(train: Arc<dyn DataLoader<ImageBatch>>) -> SupervisedTraining<Net> {
    let folder = std::env::temp_dir().join(format!("image-learner-at-half-{}", std::process::id()));
    let valid = DataLoaderBuilder::new(ImageBatcher).batch_size(4).build(images(8, 1));
    let training = SupervisedTraining::new(folder, train, valid).num_epochs(N_EPOCHS);
    training.renderer(Box::new(Quiet)).with_application_logger(None)
}

fn of_net(device: &Device) -> Learner<Net> {
    Learner::new(Net::init(device), AdamConfig::new().init(), 1e-2)
}

/// Returns the highest in use while this runs, beyond what is in use when it begins.
fn need(work: impl FnOnce()) -> Bytes {
    let mut probe = open(DeviceKind::Flex, None).unwrap();
    probe.reset_peak().unwrap();
    let before = probe.read().unwrap().in_use;
    work();
    probe.read().unwrap().peak.saturating_sub(before)
}

#[test]
fn at_half_of_what_the_fixed_batch_needs_no_image_is_lost() {
    let device = Device::flex().autodiff();
    device.seed(0);
    let warm = || warm_up(DeviceKind::Flex, &device);
    warm();
    // Training has a thread of its own, and that keeps as much for its products whatever the batch.
    let kept = need(|| thread::scope(|it| it.spawn(warm).join().unwrap()));
    let fixed = training(DataLoaderBuilder::new(ImageBatcher).batch_size(64).build(images(N_IMAGES, 0)));
    let own = of_net(&device);
    let of_fixed = need(|| drop(fixed.launch(own)));
    let half = kept.saturating_add(Bytes(of_fixed.saturating_sub(kept).0 / 2));

    let batches = plimsoll::batches(images(N_IMAGES, 0), ImageBatcher).effective_batch(64).build().unwrap();
    let (trained, own) = (Trained::default(), of_net(&device));
    let in_use = open(DeviceKind::Flex, None).unwrap().read().unwrap().in_use;
    let capacity = in_use.saturating_add(half);
    let guarded = plimsoll::learner::strategy(&device).capacity(capacity).build().unwrap();
    let adopted = training(guarded.loader(batches)).metric_train(trained.clone());
    let adopted = adopted.with_training_strategy(TrainingStrategy::Custom(guarded));
    let of_adopted = need(|| {
        let result = adopted.launch(own);
        assert!(result.error.is_none(), "{}", result.error.unwrap());
    });
    assert!(of_adopted < half, "{of_adopted} instead of {of_fixed}, where each thread keeps {kept}");
    let trained = trained.0.lock().unwrap();
    let ends: Vec<usize> = trained.windows(2).filter(|it| it[1] < it[0]).map(|it| it[0]).collect();
    assert_eq!((ends, *trained.last().unwrap()), (vec![N_IMAGES; N_EPOCHS - 1], N_IMAGES));
}
