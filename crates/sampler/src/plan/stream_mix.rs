//! Which of several streams the next sample comes from.

use serde::{Deserialize, Serialize};

use super::config::{EpochEnd, TaskMix};
use super::identity::{Version, same, within};
use super::shares::{next_task, normalized};
use crate::StreamError;
use crate::hash::digest;

/// Says which source a stream takes its next sample from, so that each has its share in every stretch.
///
/// From the start, no source is off its share by a sample, and in any stretch by two; a source that is left to the others
/// begins the stretch anew.
/// Its caller reads the samples, and says when a source has no more.
///
/// ```
/// use plimsoll_sampler::{EpochEnd, SourceEnd, StreamMix, TaskMix};
///
/// let (books, chats) = (["a", "b", "c"], ["x"]);
/// let shares = Some(vec![0.5, 0.5]);
/// let mut mix = StreamMix::try_new(&TaskMix { shares, ends: EpochEnd::LastExhausted, ..TaskMix::default() })?;
/// let (mut sources, mut epoch) = ([books.iter(), chats.iter()], Vec::new());
/// while let Some(source) = mix.next_source() {
///     match sources[source].next() {
///         Some(sample) => epoch.push(*sample),
///         None if mix.on_end(source)? == SourceEnd::BeginsAgain => sources[source] = chats.iter(),
///         None => {}
///     }
/// }
/// assert_eq!(epoch, ["a", "x", "b", "x", "c", "x"]);
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StreamMix {
    /// They sum to one.
    shares: Vec<f64>,
    ends: EpochEnd,
    epoch: u64,
    has_ended: bool,
    sources: Vec<Progress>,
}

/// Where a mix of streams stands, and so where each of its sources does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixPosition {
    version: Version,
    /// The epoch.
    pub epoch: u64,
    /// Fingerprint of the shares, and of what ends an epoch.
    of: u64,
    has_ended: bool,
    sources: Vec<Progress>,
}

/// How far an epoch has come in one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    /// How often it has begun again.
    round: u64,
    /// Samples since then.
    taken: u64,
    /// Samples since the last source was left to the others.
    since: u64,
    is_used_up: bool,
}

/// What becomes of a source that has no more samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceEnd {
    /// It begins again.
    BeginsAgain,
    /// The others have its share.
    IsLeft,
    /// The epoch ends, and each source begins again with the next one.
    EndsEpoch,
}

impl StreamMix {
    /// Stands before the first sample of epoch 0, with a source for each share.
    ///
    /// # Errors
    ///
    /// [`StreamError::NoShares`] when there are none, since nobody knows the sources' own; [`StreamError::SourceShare`] with
    /// one that is negative or no number; [`crate::PlanError::ShareSum`].
    pub fn try_new(mix: &TaskMix) -> Result<Self, StreamError> {
        let wanted = mix.shares.as_ref().filter(|shares| !shares.is_empty()).ok_or(StreamError::NoShares)?;
        for (number, share) in wanted.iter().copied().enumerate() {
            if !(share >= 0.0 && share.is_finite()) {
                return Err(StreamError::SourceShare { number, share });
            }
        }
        let shares = normalized(wanted, mix)?;
        Ok(Self { sources: start(&shares), shares, ends: mix.ends, epoch: 0, has_ended: false })
    }

    /// Goes on where a position was taken; each source has to be brought to [`StreamMix::place`].
    ///
    /// # Errors
    ///
    /// Those of [`StreamMix::try_new`], [`crate::PositionError::OtherPlan`] when the position was taken with other shares, or
    /// another end of epochs, and [`crate::PositionError::BeyondEpoch`] when no source has a sample and the epoch goes on.
    pub fn resume(mix: &TaskMix, position: &MixPosition) -> Result<Self, StreamError> {
        let fresh = Self::try_new(mix)?;
        same("sources", position.sources.len() as u64, fresh.sources.len() as u64)?;
        same("fingerprint of the task shares", position.of, fresh.fingerprint())?;
        let MixPosition { epoch, has_ended, ref sources, .. } = *position;
        if !has_ended {
            let n_used_up = sources.iter().filter(|of| of.is_used_up).count();
            within("sources that are used up", n_used_up as u64, sources.len() as u64 - 1)?;
        }
        Ok(Self { epoch, has_ended, sources: sources.clone(), ..fresh })
    }

    /// The source of the next sample, which counts as taken from it; `None` when the epoch has ended, and the next one
    /// begins.
    pub fn next_source(&mut self) -> Option<usize> {
        if std::mem::take(&mut self.has_ended) {
            (self.epoch, self.sources) = (self.epoch + 1, start(&self.shares));
            return None;
        }
        let all = || self.shares.iter().zip(&self.sources).enumerate();
        let left = || all().filter(|(_, (share, of))| **share > 0.0 && self.takes_part(of));
        let sum: f64 = left().map(|(_, (share, _))| share).sum();
        let source = next_task(left().map(|(source, (share, of))| (source, share / sum, of.since)), self.shares.len())?;
        self.sources[source].taken += 1;
        self.sources[source].since += 1;
        Some(source)
    }

    /// Says that a source had no sample, although its turn had come.
    ///
    /// # Errors
    ///
    /// [`StreamError::EmptySource`] when it has none at all, and would have to come again or end every epoch.
    ///
    /// # Panics
    ///
    /// When there is no such source.
    pub fn on_end(&mut self, source: usize) -> Result<SourceEnd, StreamError> {
        let of = &mut self.sources[source];
        (of.taken, of.since) = (of.taken.saturating_sub(1), of.since.saturating_sub(1));
        if of.taken == 0 && self.ends != EpochEnd::AllOnce {
            return Err(StreamError::EmptySource { number: source });
        }
        of.is_used_up = true;
        let all = self.sources.iter().all(|of| of.is_used_up);
        self.has_ended = all || self.ends == EpochEnd::FirstExhausted;
        if self.has_ended {
            return Ok(SourceEnd::EndsEpoch);
        }
        if self.ends == EpochEnd::LastExhausted {
            let of = &mut self.sources[source];
            (of.round, of.taken) = (of.round + 1, 0);
            return Ok(SourceEnd::BeginsAgain);
        }
        // The shares are those of the others from here on.
        for of in &mut self.sources {
            of.since = 0;
        }
        Ok(SourceEnd::IsLeft)
    }

    /// Number of sources.
    pub const fn n_sources(&self) -> usize {
        self.sources.len()
    }

    /// The epoch of the next sample.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Where a source stands: how often it has begun again in this epoch, and the samples taken since then.
    pub fn place(&self, source: usize) -> Option<(u64, u64)> {
        self.sources.get(source).map(|of| (of.round, of.taken))
    }

    /// Where the mix stands.
    pub fn position(&self) -> MixPosition {
        let Self { epoch, has_ended, .. } = *self;
        MixPosition { version: Version, epoch, of: self.fingerprint(), has_ended, sources: self.sources.clone() }
    }

    fn takes_part(&self, of: &Progress) -> bool {
        !of.is_used_up || self.ends == EpochEnd::LastExhausted
    }

    fn fingerprint(&self) -> u64 {
        digest(format!("{:?} {:?}", self.shares, self.ends).as_bytes())
    }
}

/// Nothing taken; a source without a share has none to give.
fn start(shares: &[f64]) -> Vec<Progress> {
    shares.iter().map(|share| Progress { is_used_up: *share <= 0.0, ..Progress::default() }).collect()
}
