//! A strategy for Burn's `SupervisedTraining`.

use std::ptr::addr_eq;
use std::sync::{Arc, Mutex, PoisonError};

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn::train::{
    EventProcessorTraining, Interrupter, Learner, LearnerEvent, LearnerModel, SupervisedLearningStrategy,
    SupervisedTrainingEventProcessor, TrainLoader, TrainStep, TrainingComponents, ValidLoader,
};
use plimsoll_train::Batches;

use crate::batches::Source;
use crate::epoch::{Fed, TrainEpoch, valid_epoch};
use crate::error::LearnerError;
use crate::figures::Figures;
use crate::metrics::StepMetrics;
use crate::plan::Plan;
use crate::steps::Steps;

/// Trains one model on one device under a budget, in Burn's own order of events; [`strategy`](crate::strategy()) makes one.
///
/// It goes to [`SupervisedTraining::with_training_strategy`](burn::train::SupervisedTraining::with_training_strategy) as
/// [`TrainingStrategy::Custom`](burn::train::TrainingStrategy::Custom).
///
/// # What is Burn's
///
/// Learner, optimizer, schedule, metrics, renderer, early stopping, checkpoints, interrupter and their order: what the single
/// device strategy of Burn does, with an optimizer step in the place of a batch.
/// A step in several micro-batches sends what the model returned for each, all with the iteration of the step.
///
/// # Invariants
///
/// * Schedule and optimizer step once for each step of the loader, with the gradient of the mean over all its samples.
/// * A step happens with all its samples or not at all; metrics see nothing of what was discarded.
/// * Model and optimizer are the learner's; a strategy keeps nothing from one training to the next.
pub struct GuardedStrategy<O> {
    pub(crate) device: Device,
    pub(crate) plan: Plan,
    pub(crate) figures: Figures,
    pub(crate) loaders: Mutex<Vec<Divisible<O>>>,
}

/// A loader, and the samples that it makes batches of.
pub(crate) struct Divisible<O> {
    loader: Arc<dyn DataLoader<O>>,
    source: Arc<dyn Source<O>>,
}

impl<O: 'static> GuardedStrategy<O> {
    /// Returns a loader whose steps this strategy runs in micro-batches; to anything else it yields whole steps.
    pub fn loader<I: Clone + Send + 'static>(&self, batches: Batches<I, O>) -> Arc<dyn DataLoader<O>> {
        let loader: Arc<dyn DataLoader<O>> = batches.loader(usize::MAX, &self.device);
        let divisible = Divisible { loader: Arc::clone(&loader), source: Arc::new(batches) };
        self.loaders.lock().unwrap_or_else(PoisonError::into_inner).push(divisible);
        loader
    }

    /// Returns metrics of what steps take.
    pub fn metrics(&self) -> StepMetrics {
        StepMetrics(self.figures.clone())
    }

    fn begin(
        &self,
        loader: &Arc<dyn DataLoader<O>>,
        accumulation: Option<usize>,
    ) -> Result<TrainEpoch<O>, LearnerError> {
        if let Some(n) = accumulation {
            return Err(LearnerError::Accumulation(n));
        }
        if loader.num_items() == 0 {
            return Err(LearnerError::NoItems);
        }
        let steps = Steps::open(&self.device, self.plan, self.figures.clone())?;
        Ok(TrainEpoch::new(self.fed(loader), steps))
    }

    /// Returns what feeds the training: samples where the loader is one of ours, and otherwise its batches as they are.
    fn fed(&self, loader: &Arc<dyn DataLoader<O>>) -> Fed<O> {
        let loaders = self.loaders.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = loaders.iter().find(|it| addr_eq(Arc::as_ptr(&it.loader), Arc::as_ptr(loader)));
        if let Some(ours) = ours {
            return Fed::Samples(Arc::clone(&ours.source));
        }
        log::warn!(
            "the loader for training makes whole batches, which cannot run in halves: one that does not fit ends the training; \
             `GuardedStrategy::loader` makes a loader whose steps are divided"
        );
        Fed::Batches(loader.to_device(&self.device))
    }
}

impl<M: LearnerModel> SupervisedLearningStrategy<M> for GuardedStrategy<<M as TrainStep>::Input> {
    fn fit(
        &self,
        components: TrainingComponents<M>,
        mut learner: Learner<M>,
        loader: TrainLoader<M>,
        valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let TrainingComponents { num_epochs, grad_accumulation, interrupter, event_store, .. } = components;
        let TrainingComponents { event_processor: mut events, mut checkpointer, mut early_stopping, .. } = components;
        let mut train = match self.begin(&loader, grad_accumulation) {
            Ok(train) => train,
            Err(error) => {
                interrupter.fail(error);
                return (learner.model(), events);
            }
        };
        let valid = valid.to_device(&self.device.clone().inner());
        learner.fork(&self.device);
        for epoch in starting_epoch..=num_epochs {
            interrupter.fail_on_error(events.process_train(started(epoch, train.n_items())));
            train.run(&mut learner, epoch, &mut events, &interrupter);
            interrupter.fail_on_error(events.process_train(LearnerEvent::EndSplit(epoch)));
            if interrupter.should_stop() {
                log_interruption(&interrupter);
                break;
            }
            interrupter.fail_on_error(events.process_valid(started(epoch, valid.num_items())));
            valid_epoch(&learner, &valid, &mut events, &interrupter);
            interrupter.fail_on_error(events.process_valid(LearnerEvent::EndSplit(epoch)));
            interrupter.fail_on_error(events.process_train(LearnerEvent::EndEpoch(epoch)));
            if checkpointer.is_some() || early_stopping.is_some() {
                // Metrics are computed on a thread of their own, and are read now.
                interrupter.fail_on_error(events.flush());
            }
            if interrupter.should_stop() {
                break;
            }
            if let Some(checkpointer) = &mut checkpointer {
                checkpointer.checkpoint(&learner, epoch, &event_store);
            }
            if early_stopping.as_mut().is_some_and(|it| it.should_stop(epoch, &event_store)) {
                break;
            }
        }
        // A program that ends while the device still works takes the driver away beneath it.
        interrupter.fail_on_error(settled(&self.device));
        (learner.model(), events)
    }
}

/// Waits until the device has done what it was asked for.
fn settled(device: &Device) -> Result<(), LearnerError> {
    device.sync().map_err(|error| LearnerError::Unsettled(error.to_string()))
}

fn started<T>(epoch_number: usize, total_items: usize) -> LearnerEvent<T> {
    LearnerEvent::StartSplit { epoch_number, total_items }
}

fn log_interruption(interrupter: &Interrupter) {
    if let Some(interruption) = interrupter.interruption() {
        log::info!("Training interrupted: {}", interruption.reason.as_deref().unwrap_or("reason unknown"));
    }
}
