//! Which samples come next.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_sampler::{
    BatchPlanner, CapacityRule, EpochCursor, Lattice, PlanConfig, PlannedStep, SampleIndex, StepBatch, StepPlanner,
    StepPosition, StreamPlanner, StreamStats,
};
use serde::{Deserialize, Serialize};

use super::stream::{Stream, StreamedPosition, StreamedStep};
use super::{LoaderConfig, LoaderError};
use crate::source::{Lengths, Source};

/// What the policy wants of the next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Samples that are all cut to one edge.
    Edge(u32),
    /// Samples that are padded to edges, with no more in a micro-batch than this, for each edge.
    Batches(Vec<u32>),
}

/// How many samples of each edge may run at once: what the memory has room for, and not more than a step takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BatchSizes {
    edges: Arc<[u32]>,
    sizes: Vec<u32>,
}

impl BatchSizes {
    fn new(config: &LoaderConfig, sizes: &[u32]) -> Self {
        let most = config.edges.iter().map(|edge| config.batch_of(*edge));
        Self { edges: config.edges.as_slice().into(), sizes: sizes.iter().zip(most).map(|(a, b)| b.min(*a)).collect() }
    }
}

impl CapacityRule<1> for BatchSizes {
    fn capacity(&self, [padded]: [u32; 1]) -> u32 {
        let at = self.edges.partition_point(|edge| *edge < padded);
        self.sizes.get(at).copied().unwrap_or(0)
    }
}

/// Where the samples of a step begin: what a checkpoint needs to go on from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoaderPosition {
    /// Among samples that are cut.
    Cut(EpochCursor),
    /// Among samples that are padded.
    Padded {
        /// In the plan.
        position: StepPosition,
        /// What the plan was made for.
        wanted: Vec<u32>,
    },
    /// In a stream.
    Streamed(StreamedPosition),
}

/// An endless sequence of steps.
pub(super) enum Order<S: Source> {
    Cut { cursor: EpochCursor, edge: u32, n_samples: u64 },
    Padded { steps: Box<StepPlanner<BatchSizes>>, index: SampleIndex<1>, config: Box<LoaderConfig>, wanted: Vec<u32> },
    Streamed { stream: Box<Stream<S>>, config: Box<LoaderConfig>, wanted: Vec<u32> },
}

impl<S: Source> Order<S> {
    /// Begins at the start, or at a position, where an earlier part of the run has left off.
    pub(super) fn try_new(
        source: &Arc<S>,
        config: &LoaderConfig,
        wanted: &Wanted,
        position: Option<LoaderPosition>,
    ) -> Result<Self, LoaderError> {
        match (source.lengths(), wanted) {
            (Lengths::Cut, Wanted::Edge(edge)) => {
                let cursor = match position {
                    None => EpochCursor::try_new(source.n_samples(), config.seed)?,
                    Some(LoaderPosition::Cut(cursor)) => cursor,
                    Some(_) => return Err(LoaderError::OtherPosition),
                };
                Ok(Self::Cut { cursor, edge: *edge, n_samples: config.effective_batch_size.into() })
            }
            (Lengths::Known(index), Wanted::Batches(sizes)) => Self::padded(index, config, sizes, position),
            (Lengths::Streamed { .. }, Wanted::Batches(sizes)) => Self::streamed(source, config, sizes, position),
            _ => Err(LoaderError::OtherSamples),
        }
    }

    fn padded(
        index: SampleIndex<1>,
        config: &LoaderConfig,
        sizes: &[u32],
        position: Option<LoaderPosition>,
    ) -> Result<Self, LoaderError> {
        let (position, wanted) = match position {
            None => (None, sizes.to_vec()),
            Some(LoaderPosition::Padded { position, wanted }) => (Some(position), wanted),
            Some(_) => return Err(LoaderError::OtherPosition),
        };
        let planner = BatchPlanner::try_new(index.clone(), BatchSizes::new(config, &wanted), plan(config)?)?;
        let steps = match position {
            None => StepPlanner::try_new(&planner, config.step_size())?,
            Some(position) => StepPlanner::resume(&planner, config.step_size(), &position)?,
        };
        Ok(Self::Padded { steps: Box::new(steps), index, config: Box::new(config.clone()), wanted })
    }

    fn streamed(
        source: &Arc<S>,
        config: &LoaderConfig,
        sizes: &[u32],
        position: Option<LoaderPosition>,
    ) -> Result<Self, LoaderError> {
        let position = match position {
            None => None,
            Some(LoaderPosition::Streamed(position)) => Some(position),
            Some(_) => return Err(LoaderError::OtherPosition),
        };
        let wanted = position.as_ref().map_or(sizes, |it| &it.wanted).to_vec();
        let rule = BatchSizes::new(config, &wanted);
        let planner = StreamPlanner::try_new(rule, plan(config)?, Stream::<S>::limits(config))?;
        let stream = Stream::try_new(source, config, planner, position.as_ref())?;
        Ok(Self::Streamed { stream: Box::new(stream), config: Box::new(config.clone()), wanted })
    }

    /// Returns the next step, with its samples where they were read already.
    pub(super) fn next(&mut self) -> Result<NextStep<S::Item>, LoaderError> {
        if let Self::Streamed { stream, .. } = self {
            let StreamedStep { step, items, skipped } = stream.next()?;
            return Ok(NextStep { step, items: Some(items), skipped });
        }
        Ok(NextStep { step: self.next_planned(), items: None, skipped: Vec::new() })
    }

    fn next_planned(&mut self) -> PlannedStep {
        match self {
            Self::Streamed { .. } => unreachable!("its steps come with their samples"),
            Self::Cut { cursor, edge, n_samples } => {
                let start = cursor.position;
                let (epoch, ids) = cursor.take(*n_samples);
                let (span, ends_epoch) = (start..start + ids.len() as u64, cursor.epoch != epoch);
                PlannedStep { epoch, span, batches: vec![StepBatch { ids, edge: *edge }], ends_epoch }
            }
            Self::Padded { steps, .. } => steps.next_step(),
        }
    }

    /// Returns where the next step begins.
    pub(super) fn position(&self) -> LoaderPosition {
        match self {
            Self::Cut { cursor, .. } => LoaderPosition::Cut(cursor.clone()),
            Self::Padded { steps, wanted, .. } => {
                LoaderPosition::Padded { position: steps.position(), wanted: wanted.clone() }
            }
            Self::Streamed { stream, wanted, .. } => LoaderPosition::Streamed(stream.position(wanted)),
        }
    }

    /// Follows other sizes from the step on that begins where the last delivered one ended: what was taken ahead of need
    /// comes again, so that the steps do not depend on how much that was.
    ///
    /// Steps of a stream that were taken ahead are used as they are.
    pub(super) fn change(&mut self, to: &Wanted, delivered: &LoaderPosition) -> Result<(), LoaderError> {
        match (self, to, delivered) {
            (Self::Cut { cursor, edge, .. }, Wanted::Edge(to), LoaderPosition::Cut(position)) => {
                (*edge, *cursor) = (*to, position.clone());
                Ok(())
            }
            (
                Self::Padded { steps, config, wanted, .. },
                Wanted::Batches(sizes),
                LoaderPosition::Padded { position, wanted: was },
            ) => {
                steps.go_back(BatchSizes::new(config, was), position)?;
                steps.change(BatchSizes::new(config, sizes))?;
                wanted.clone_from(sizes);
                Ok(())
            }
            (Self::Streamed { stream, config, wanted }, Wanted::Batches(sizes), _) => {
                stream.change(BatchSizes::new(config, sizes))?;
                wanted.clone_from(sizes);
                Ok(())
            }
            _ => Err(LoaderError::OtherSamples),
        }
    }

    /// Begins again where the last delivered step ended, without another change; steps of a stream that were taken ahead
    /// are used as they are.
    pub(super) fn go_back(&mut self, delivered: &LoaderPosition) -> Result<(), LoaderError> {
        match (self, delivered) {
            (Self::Cut { cursor, .. }, LoaderPosition::Cut(position)) => cursor.clone_from(position),
            (Self::Padded { steps, config, .. }, LoaderPosition::Padded { position, wanted }) => {
                steps.go_back(BatchSizes::new(config, wanted), position)?;
            }
            (Self::Streamed { .. }, _) => (),
            _ => return Err(LoaderError::OtherPosition),
        }
        Ok(())
    }

    /// Lets a stream hold no sample that is longer than this from here on.
    pub(super) fn leave_out_longer(&mut self, longest: Option<u32>) {
        if let Self::Streamed { stream, .. } = self {
            stream.leave_out_longer(longest);
        }
    }

    /// Returns the length of a sample that is known before it is read.
    pub(super) fn length(&self, id: u64) -> Option<u32> {
        let Self::Padded { index, .. } = self else { return None };
        index.get(id).map(|[length]| length)
    }

    /// Whether the next steps are as they are wanted.
    pub(super) fn is(&self, to: &Wanted) -> bool {
        match (self, to) {
            (Self::Cut { edge, .. }, Wanted::Edge(to)) => edge == to,
            (Self::Padded { wanted, .. } | Self::Streamed { wanted, .. }, Wanted::Batches(sizes)) => wanted == sizes,
            _ => false,
        }
    }

    /// Whether steps that were taken ahead of need can be taken again.
    pub(super) fn takes_back(&self) -> bool {
        !matches!(self, Self::Streamed { .. })
    }

    /// Returns how the look-ahead buffer of a stream did.
    pub(super) fn stream_stats(&self) -> Option<StreamStats> {
        if let Self::Streamed { stream, .. } = self { Some(stream.stats()) } else { None }
    }

    /// Returns how long this has waited for samples of a stream to be read.
    pub(super) fn waited(&self) -> Duration {
        if let Self::Streamed { stream, .. } = self { stream.waited() } else { Duration::ZERO }
    }
}

/// A step, and what is known of its samples.
pub(super) struct NextStep<T> {
    pub(super) step: PlannedStep,
    pub(super) items: Option<Vec<T>>,
    pub(super) skipped: Vec<u64>,
}

fn plan(config: &LoaderConfig) -> Result<PlanConfig<1>, LoaderError> {
    Ok(PlanConfig {
        seed: config.seed,
        lattice: Lattice::try_new([config.edges.clone()])?,
        tasks: config.tasks.clone(),
        ..PlanConfig::default()
    })
}
