//! Trainings on a Vulkan device, where one is installed; a software driver will do.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

mod common;

use std::sync::atomic::Ordering::Relaxed;

use burn::train::TrainingStrategy;
use common::{Happened, N_UNTIL_LOST, alone, error, learner, of_lengths, training};
use plimsoll_learner::strategy;
use plimsoll_probe::{DeviceKind, ProbeError, open};
use plimsoll_train::open_device;

#[test]
fn weights_that_are_lost_in_the_last_step_of_an_epoch_reach_no_validation_and_no_checkpoint() {
    let _alone = alone();
    match open(DeviceKind::Vulkan(0), None) {
        Ok(_) => {}
        Err(error @ ProbeError::NoDevice { .. }) => return eprintln!("skipped: failed to {error}"),
        Err(error) => panic!("failed to {error}"),
    }
    let device = open_device(DeviceKind::Vulkan(0)).unwrap();
    for (n_until_lost, expected, n_epochs) in [(0, "", 2), (6, "epoch 2, step 3: the weights were lost", 1)] {
        let happened = Happened::default();
        let ours = strategy(&device).micro_batch(16).build().unwrap();
        let training = training(ours.loader(of_lengths(&[3; 40])), &happened);
        let learner = learner(&device);
        N_UNTIL_LOST.store(n_until_lost, Relaxed);
        let training = training.with_default_checkpointers().num_epochs(2);
        let result = training.with_training_strategy(TrainingStrategy::Custom(ours)).launch(learner);
        let (text, events) = (error(&result), happened.all());
        assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{text}");
        assert_eq!(events.iter().filter(|it| it.starts_with("start valid")).count(), n_epochs, "{events:?}");
        assert_eq!(events.iter().filter(|it| it.starts_with("end epoch")).count(), n_epochs, "{events:?}");
    }
}
