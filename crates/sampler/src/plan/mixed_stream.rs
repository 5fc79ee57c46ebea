//! One stream out of several.

use super::stream_mix::{MixPosition, SourceEnd, StreamMix};
use super::streamed::StreamSample;
use crate::{StreamError, TaskMix};

/// The samples of several sources in their shares, epoch by epoch; each sample's task is the number of its source.
#[derive(Clone, Debug)]
pub struct MixedStream<F, I> {
    mix: StreamMix,
    open: F,
    sources: Vec<Option<I>>,
}

/// Mixes streams as a [`StreamMix`] says: `open` begins a source, by its number, the epoch and how often it came in it.
///
/// The iterator ends with each epoch, and then goes on with the next.
///
/// ```
/// use plimsoll_sampler::{Bytes, PaddedBudget, PlanConfig, StreamLimits, StreamSample, TaskMix, bucketed, mixed_stream};
///
/// // Three hundred books and nine hundred chats, of which one in ten is to be a book.
/// let open = |source: usize, _epoch: u64, _round: u64| {
///     (0..[300, 900][source]).map(move |id| StreamSample { id, lengths: [5 + id as u32 % 60], task: 0, bytes: Bytes(9) })
/// };
/// let samples = mixed_stream(&TaskMix { shares: Some(vec![0.1, 0.9]), ..TaskMix::default() }, open)?;
/// let limits = StreamLimits { samples: 200, bytes: Bytes::mib(1) };
/// // A source that is empty ends the epoch, and has to be told from its end.
/// let mut failed = None;
/// let samples = samples.map_while(|sample| sample.map_err(|error| failed = Some(error)).ok());
/// let batches = bucketed(samples, PaddedBudget([500]), PlanConfig::default(), limits)?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(batches.iter().map(|batch| batch.ids.len()).sum::<usize>(), 1_200);
/// failed.map_or(Ok(()), Err)?;
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
///
/// # Errors
///
/// Those of [`StreamMix::try_new`]; the iterator returns [`StreamError::EmptySource`].
pub fn mixed_stream<F, I, const AXES: usize>(mix: &TaskMix, open: F) -> Result<MixedStream<F, I>, StreamError>
where
    F: FnMut(usize, u64, u64) -> I,
    I: Iterator<Item = StreamSample<AXES>>,
{
    let mix = StreamMix::try_new(mix)?;
    let n_sources = mix.n_sources();
    Ok(MixedStream { mix, open, sources: std::iter::repeat_with(|| None).take(n_sources).collect() })
}

impl<F, I, const AXES: usize> MixedStream<F, I>
where
    F: FnMut(usize, u64, u64) -> I,
    I: Iterator<Item = StreamSample<AXES>>,
{
    /// Where the mix stands.
    pub fn position(&self) -> MixPosition {
        self.mix.position()
    }

    /// Goes on where a position was taken: each source is begun, and passed over as far as it was taken.
    ///
    /// # Errors
    ///
    /// Those of [`StreamMix::resume`].
    pub fn resume(mix: &TaskMix, position: &MixPosition, open: F) -> Result<Self, StreamError> {
        let mut stream = mixed_stream(mix, open)?;
        stream.mix = StreamMix::resume(mix, position)?;
        for source in 0..stream.sources.len() {
            let (round, taken) = stream.mix.place(source).unwrap_or_default();
            let mut samples = (stream.open)(source, stream.mix.epoch(), round);
            samples.by_ref().take(usize::try_from(taken).unwrap_or(usize::MAX)).for_each(drop);
            stream.sources[source] = Some(samples);
        }
        Ok(stream)
    }

    fn take(&mut self, source: usize) -> Option<StreamSample<AXES>> {
        let (round, _) = self.mix.place(source).unwrap_or_default();
        let samples = self.sources[source].get_or_insert_with(|| (self.open)(source, self.mix.epoch(), round));
        let task = u16::try_from(source).unwrap_or(u16::MAX);
        samples.next().map(|sample| StreamSample { task, ..sample })
    }
}

impl<F, I, const AXES: usize> Iterator for MixedStream<F, I>
where
    F: FnMut(usize, u64, u64) -> I,
    I: Iterator<Item = StreamSample<AXES>>,
{
    type Item = Result<StreamSample<AXES>, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(source) = self.mix.next_source() {
            if let Some(sample) = self.take(source) {
                return Some(Ok(sample));
            }
            self.sources[source] = None;
            match self.mix.on_end(source) {
                Ok(SourceEnd::BeginsAgain | SourceEnd::IsLeft) => {}
                Ok(SourceEnd::EndsEpoch) => self.sources.iter_mut().for_each(|it| *it = None),
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}
