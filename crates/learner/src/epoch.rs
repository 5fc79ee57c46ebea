//! The epochs of a training.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::train::{
    EventProcessorTraining, InferenceStep, Interrupter, Learner, LearnerEvent, LearnerModel,
    SupervisedTrainingEventProcessor, TrainStep, TrainingError, TrainingItem, ValidLoader,
};

use crate::batches::{EpochSteps, Source, StepBatches};
use crate::error::{At, LearnerError};
use crate::steps::Steps;

/// What feeds a training.
pub(crate) enum Fed<O> {
    /// Samples of which batches are made part by part.
    Samples(Arc<dyn Source<O>>),
    /// Batches as they are.
    Batches(Arc<dyn DataLoader<O>>),
}

impl<O: 'static> Fed<O> {
    pub(crate) fn n_items(&self) -> usize {
        match self {
            Self::Samples(source) => source.n_samples(),
            Self::Batches(loader) => loader.num_items(),
        }
    }

    fn epoch(&self, epoch: usize) -> EpochSteps<'_, O, TrainingError> {
        match self {
            Self::Samples(source) => {
                let failed = move |step, source| LearnerError::Batch { at: At { epoch, step }, source }.into();
                let steps = (1..).zip(source.epoch(epoch));
                Box::new(steps.map(move |(step, it)| it.map_err(|source| failed(step, source))))
            }
            Self::Batches(loader) => whole(loader.iter()),
        }
    }
}

/// Counts the samples of batches by how far their loader says it has come; of one that does not say so, each is one.
fn whole<'a, O: 'static>(mut batches: Box<dyn DataLoaderIterator<O> + 'a>) -> EpochSteps<'a, O, TrainingError> {
    let mut processed = 0;
    Box::new(std::iter::from_fn(move || {
        let batch = batches.next()?;
        let before = std::mem::replace(&mut processed, batches.progress().items_processed);
        let n_samples = processed.saturating_sub(before).max(1);
        Some(batch.map(|batch| StepBatches::whole(batch, n_samples)).map_err(TrainingError::from))
    }))
}

/// Trains one epoch after the other.
pub(crate) struct TrainEpoch<O> {
    fed: Fed<O>,
    steps: Steps,
}

impl<O: 'static> TrainEpoch<O> {
    pub(crate) fn new(fed: Fed<O>, steps: Steps) -> Self {
        Self { fed, steps }
    }

    pub(crate) fn n_items(&self) -> usize {
        self.fed.n_items()
    }

    pub(crate) fn run<M: LearnerModel + TrainStep<Input = O>>(
        &mut self,
        learner: &mut Learner<M>,
        epoch: usize,
        events: &mut SupervisedTrainingEventProcessor<M>,
        interrupter: &Interrupter,
    ) {
        log::info!("Executing training step for epoch {epoch}");
        let n_items = self.n_items();
        self.steps.begin_epoch();
        let (mut processed, mut last) = (0, At { epoch, step: 0 });
        for (step, batches) in (1..).zip(self.fed.epoch(epoch)) {
            let batches = match batches {
                Ok(batches) => batches,
                Err(error) => {
                    interrupter.fail(error);
                    break;
                }
            };
            log::info!("Iteration {step}");
            last = At { epoch, step };
            let outputs = match self.steps.run(learner, &batches, last) {
                Ok(outputs) => outputs,
                Err(error) => {
                    interrupter.fail(error);
                    break;
                }
            };
            for (n_samples, output) in outputs {
                processed += n_samples;
                let progress = Progress::new(processed, n_items, Some("items".to_owned()));
                let item = TrainingItem::new(output, progress, Some(step), Some(learner.lr_current()));
                interrupter.fail_on_error(events.process_train(LearnerEvent::ProcessedItem(item)));
            }
            if interrupter.should_stop() {
                break;
            }
        }
        // Neither a validation nor a checkpoint is to see weights that were lost.
        if interrupter.error().is_none() {
            interrupter.fail_on_error(self.steps.check(learner, last));
        }
    }
}

/// Validates as Burn does, in the loader's own batches.
pub(crate) fn valid_epoch<M: LearnerModel>(
    learner: &Learner<M>,
    loader: &ValidLoader<M>,
    events: &mut SupervisedTrainingEventProcessor<M>,
    interrupter: &Interrupter,
) {
    let model = learner.model().valid();
    let mut batches = loader.iter();
    let mut iteration = 0;
    while let Some(batch) = batches.next() {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                interrupter.fail(error);
                break;
            }
        };
        iteration += 1;
        let progress = batches.progress();
        let item = TrainingItem::new(InferenceStep::step(&model, batch), progress, Some(iteration), None);
        interrupter.fail_on_error(events.process_valid(LearnerEvent::ProcessedItem(item)));
        if interrupter.should_stop() {
            break;
        }
    }
}
