//! Image classification with Burn's `Learner`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "learner/mod.rs"]
mod learner;

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::Dataset;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{Learner, SupervisedTraining};

use learner::data::{Image, ImageBatch, ImageBatcher, images};
use learner::model::Net;
use learner::quiet::Quiet;

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    device.seed(0);
    let folder = std::env::temp_dir().join(format!("image-learner-{}", std::process::id()));
    let guarded = plimsoll::learner::strategy(&device).budget(0.9).build()?;
    let train = plimsoll::batches(images(500, 0), ImageBatcher).effective_batch(64).seed(0).workers(2).build()?;
    let valid = DataLoaderBuilder::new(ImageBatcher).batch_size(64).build(images(100, 1));
    let training = SupervisedTraining::new(&folder, guarded.loader(train), valid)
        .with_training_strategy(burn::train::TrainingStrategy::Custom(guarded))
        .metrics((AccuracyMetric::new(), plimsoll::learner::BySamples::new(LossMetric::new())))
        .num_epochs(6)
        .renderer(Box::new(Quiet))
        .with_application_logger(None);
    let result = training.launch(Learner::new(Net::init(&device), AdamConfig::new().init(), 1e-2));
    let test: Vec<Image> = images(200, 2).iter().filter_map(Result::ok).collect();
    let ImageBatch { images, shapes } = ImageBatcher.batch(test, &device.inner());
    let are_right = result.model.forward(images).argmax(1).flatten::<1>(0, 1).equal(shapes);
    std::fs::remove_dir_all(folder).ok();
    println!("accuracy {:.3}", are_right.float().mean().into_scalar::<f64>());
    Ok(())
}
