//! Which sample of a stream comes next.

use plimsoll_sampler::{EpochCursor, MixCursor, MixDraw, MixPosition};
use serde::{Deserialize, Serialize};

use super::{LoaderConfig, LoaderError};
use crate::source::{NamedSource, Source};

/// The next sample of a stream: of all of them, or of sources that have shares.
#[derive(Clone, Debug)]
pub(super) enum Cursor {
    OfAll(EpochCursor),
    OfSources { mix: Box<MixCursor>, n_samples: u64 },
}

/// Where a stream reads on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CursorPosition {
    /// Among all samples.
    OfAll(EpochCursor),
    /// In each source.
    OfSources(MixPosition),
}

/// A sample that comes next.
pub(super) struct Next {
    pub(super) epoch: u64,
    /// Its id, and the number of samples for each time that its source has begun again in the epoch: no two that wait for a
    /// step have the same.
    pub(super) key: u64,
    pub(super) ends_epoch: bool,
}

impl Cursor {
    /// Stands at the start, or at a position.
    pub(super) fn try_new<S: Source>(
        source: &S,
        config: &LoaderConfig,
        position: Option<&CursorPosition>,
    ) -> Result<Self, LoaderError> {
        let (n_samples, seed) = (source.n_samples(), config.seed);
        if config.tasks.shares.is_none() {
            return match position {
                None => Ok(Self::OfAll(EpochCursor::try_new(n_samples, seed)?)),
                Some(CursorPosition::OfAll(it)) if it.n_samples == n_samples && it.position < n_samples => {
                    Ok(Self::OfAll(it.clone()))
                }
                Some(_) => Err(LoaderError::OtherPosition),
            };
        }
        let sizes = sizes(source)?;
        let mix = match position {
            None => MixCursor::try_new(&config.tasks, &sizes, seed)?,
            Some(CursorPosition::OfSources(position)) => MixCursor::resume(&config.tasks, &sizes, seed, position)?,
            Some(CursorPosition::OfAll(_)) => return Err(LoaderError::OtherPosition),
        };
        Ok(Self::OfSources { mix: Box::new(mix), n_samples })
    }

    pub(super) fn take(&mut self) -> Next {
        match self {
            Self::OfAll(cursor) => {
                let (epoch, ids) = cursor.take(1);
                Next { epoch, key: ids[0], ends_epoch: cursor.position == 0 }
            }
            Self::OfSources { mix, n_samples } => {
                let MixDraw { epoch, round, id, ends_epoch } = mix.take();
                Next { epoch, key: round * *n_samples + id, ends_epoch }
            }
        }
    }

    pub(super) fn position(&self) -> CursorPosition {
        match self {
            Self::OfAll(cursor) => CursorPosition::OfAll(cursor.clone()),
            Self::OfSources { mix, .. } => CursorPosition::OfSources(mix.position()),
        }
    }
}

/// Returns how many samples each source has, which are all samples together.
fn sizes<S: Source>(source: &S) -> Result<Vec<u64>, LoaderError> {
    let (n_samples, sources) = (source.n_samples(), source.sources());
    let n_of_sources = sources.iter().map(|it| it.n_samples).sum();
    if !sources.is_empty() && n_of_sources != n_samples {
        return Err(LoaderError::OtherSources { n_of_sources, n_samples });
    }
    Ok(sources.iter().map(|NamedSource { n_samples, .. }| *n_samples).collect())
}
