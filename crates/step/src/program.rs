//! What is known of a program's needs, and how its steps are divided by it.

use plimsoll_predict::{Keys, PartReading, Phase, PredictError, Predictor, PredictorConfig};
use plimsoll_types::{Attempt, Bytes, Observation, Prediction, StepShape};
use serde::{Deserialize, Serialize};

use crate::replicas::Replicas;
use crate::request::{RanPart, StepPart};

/// What the steps of one program have shown of their needs.
///
/// What a part of `n` samples of length `e` needs is bounded by the [certificate](plimsoll_predict::Certificate) of all
/// readings, for a program whose tensors are combinations of the features of its [`PredictorConfig`], which are
/// `1, e, e², n, n·e, n·e²` by default.
#[derive(Clone, Debug)]
pub struct ProgramNeeds {
    keys: Keys,
    has_exact_peaks: bool,
    /// One that has seen nothing.
    fresh: Predictor,
    shown: Shown,
}

/// What steps have shown, to be kept from one process to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    predictor: Predictor,
    /// Parts that the device refused, without a figure that could be learnt.
    refused: Vec<Refusal>,
}

/// A part that the device refused: others may have held the memory, so that it is tried again after some steps, and after
/// twice as many each time that it is refused again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refusal {
    shape: StepShape,
    /// Steps for which it stands.
    n_steps: u32,
    /// How many of them are left.
    n_left: u32,
}

/// How many samples run, and are thrown away, before the first step: one, two, and enough for the kernels that Flex runs from
/// five samples on.
const SOUNDINGS: [usize; 3] = [1, 2, 8];

/// Steps for which a first refusal stands.
const FIRST_REFUSAL: u32 = 16;
/// Steps for which any stands at most.
const LONGEST_REFUSAL: u32 = 4096;

/// What the parts of a step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What is in use before the first part.
    pub resident: Bytes,
    /// What each part but the first finds besides: the gradients of those before it.
    pub gradients: Bytes,
    /// What is not to be exceeded.
    pub budget: Bytes,
}

/// No batch of a program has more.
const MOST_SAMPLES: usize = 1 << 20;

impl ProgramNeeds {
    /// Knows nothing yet; `has_exact_peaks` says whether a device measures what is in use, and not merely what is reserved.
    ///
    /// # Errors
    ///
    /// [`PredictError`] for a configuration that makes no sense.
    pub fn try_new(keys: Keys, config: PredictorConfig, has_exact_peaks: bool) -> Result<Self, PredictError> {
        let fresh = Predictor::try_new(config)?;
        Ok(Self { keys, has_exact_peaks, shown: Shown { predictor: fresh.clone(), refused: Vec::new() }, fresh })
    }

    /// Predicts what a part reaches that finds so much in use; `None` while nothing is known of it.
    pub fn predict(&self, shape: StepShape, resident: Bytes) -> Option<Prediction> {
        self.shown.predictor.predict(self.keys.key(Phase::Train, shape), shape, resident)
    }

    /// Whether a part is certain to fit.
    pub fn fits(&self, shape: StepShape, resident: Bytes, budget: Bytes) -> bool {
        let is_refused = self.shown.refused.iter().any(|it| 0 < it.n_left && shape.covers(it.shape));
        !is_refused && self.predict(shape, resident).is_some_and(|it| it.upper <= budget)
    }

    /// Returns how many samples of a length are certain to fit into one part that finds so much in use: one while nothing is
    /// known, and none where it is known that one does not fit.
    pub fn most(&self, edge: u32, resident: Bytes, budget: Bytes) -> usize {
        let shape = |n: usize| StepShape::new(u32::try_from(n).unwrap_or(u32::MAX), edge);
        let is_known = self.predict(shape(1), resident).is_some();
        if is_known && !self.fits(shape(1), resident, budget) {
            return 0;
        }
        most(MOST_SAMPLES, |n| self.fits(shape(n), resident, budget))
    }

    /// Divides samples of these lengths, the longest first, into parts of as many as are certain to fit on each device, by what
    /// is known of the needs there and by its room, one at least; or into parts of a size that is given.
    pub fn divide(lengths: &[u32], micro_batch: Option<u32>, devices: &[(&Self, Room)]) -> Vec<StepPart> {
        parts(lengths, |start, shape| match micro_batch {
            Some(most) => shape.samples <= most,
            None => devices.iter().all(|(it, room)| it.fits_at(start, shape, *room)),
        })
    }

    /// Whether a part is certain to fit that begins at a sample: each but the first finds the gradients of those before it.
    fn fits_at(&self, start: usize, shape: StepShape, room: Room) -> bool {
        let found = if start == 0 { room.resident } else { room.resident.saturating_add(room.gradients) };
        self.fits(shape, found, room.budget)
    }

    /// Divides samples of these lengths, the longest first, between replicas that run their parts at once: into parts that have
    /// as many padded positions, and are certain to fit into a replica's share of the room.
    ///
    /// None is one of the smallest batches, which have slow kernels, where there may be a larger one.
    pub fn divide_between(&self, replicas: &Replicas, lengths: &[u32], room: Room) -> Vec<StepPart> {
        let free = room.budget.saturating_sub(room.resident);
        let budget = room.resident.saturating_add(Bytes(free.0 / replicas.count().max(1) as u64));
        let found = room.resident.saturating_add(room.gradients);
        let is_within =
            |shape: StepShape, most| shape.positions() <= most || shape.samples <= self.keys.small_batch + 1;
        let n_parts = |most| parts(lengths, |_, shape| is_within(shape, most)).len();
        let (mut too_few, mut most) = (0, lengths.len() as u64 * u64::from(lengths.first().copied().unwrap_or(0)));
        while too_few + 1 < most {
            let middle = too_few.midpoint(most);
            if n_parts(middle) <= replicas.count() { most = middle } else { too_few = middle }
        }
        parts(lengths, |_, shape| is_within(shape, most) && self.fits(shape, found, budget))
    }

    /// Returns the part that is to run, and to be thrown away, after `n_done` others of samples of these lengths, the longest
    /// first: none where what more need is known, or where it is certain not to fit.
    ///
    /// What is bounded by what ran before needs none, but for kernels that nothing has run yet: in the first step, where
    /// `is_first`, all run that may.
    pub fn sounding(&self, n_done: usize, lengths: &[u32], is_first: bool, room: Room) -> Option<StepPart> {
        let n = SOUNDINGS.get(n_done).copied().filter(|n| *n <= lengths.len())?;
        let part = StepPart { samples: 0..n, extent: lengths[0].into() };
        let known = self.predict(part.shape(), room.resident);
        known.is_none_or(|it| is_first && it.upper <= room.budget).then_some(part)
    }

    /// Whether it is not known that a part needs more than there is room for.
    pub(crate) fn may_fit(&self, shape: StepShape, room: Room) -> bool {
        self.predict(shape, room.resident).is_none_or(|it| it.upper <= room.budget)
    }

    /// Learns from parts that ran out of memory; `ran` are the parts of that step that ran in the end.
    ///
    /// What was refused and ran after a cleanup says nothing of its size.
    pub fn learn_failures(&mut self, failures: &[Attempt], ran: &[RanPart]) {
        for Attempt { shape, resident, peak, page, nodes, .. } in failures.iter().copied() {
            match peak {
                Some(peak) => {
                    let read = PartReading::of(Observation { shape, resident, peak }, self.has_exact_peaks, page);
                    self.observe(&[read.with_nodes(nodes)], Bytes::ZERO);
                }
                None if ran.iter().any(|it| it.part.shape().covers(shape)) => {}
                None => self.refuse(shape),
            }
        }
    }

    fn refuse(&mut self, shape: StepShape) {
        match self.shown.refused.iter_mut().find(|it| it.shape == shape) {
            // One attempt may be refused more than once.
            Some(again) if 0 < again.n_left => {}
            Some(again) => {
                again.n_steps = again.n_steps.saturating_mul(2).min(LONGEST_REFUSAL);
                again.n_left = again.n_steps;
            }
            None => self.shown.refused.push(Refusal { shape, n_steps: FIRST_REFUSAL, n_left: FIRST_REFUSAL }),
        }
    }

    /// Learns what a product of matrices packs at most.
    pub(crate) fn note_packed(&mut self, packed: Bytes) {
        self.shown.predictor.note_packed(packed);
    }

    /// Learns what each part needed, of a step that kept so much.
    pub fn learn(&mut self, parts: &[RanPart], kept: Bytes) {
        self.shown.refused.iter_mut().for_each(|it| it.n_left = it.n_left.saturating_sub(1));
        let read: Vec<_> = parts.iter().filter_map(|it| it.reading(self.has_exact_peaks)).collect();
        self.observe(&read, kept);
    }

    /// Begins again, with another model or another state of its optimizer.
    pub fn forget(&mut self) {
        self.shown = Shown { predictor: self.fresh.clone(), refused: Vec::new() };
    }

    /// Returns what steps have shown so far.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Goes on with what the steps of another process have shown of the same program, where they were read by the same
    /// configuration.
    pub fn recall(&mut self, shown: Shown) {
        if shown.predictor.config() == self.fresh.config() {
            self.shown = shown;
        }
    }

    /// Takes readings in; of one that makes no sense nothing is known any more.
    fn observe(&mut self, read: &[PartReading], kept: Bytes) {
        let read: Vec<_> = read.iter().map(|it| (self.keys.key(Phase::Train, it.shape), *it)).collect();
        if self.shown.predictor.observe_step(&read, kept).is_err() {
            self.forget();
        }
    }
}

/// Divides samples of these lengths, the longest first: each part has as many as fit by what `fits` says of the place where
/// it begins and of its shape, and one at least.
fn parts(lengths: &[u32], fits: impl Fn(usize, StepShape) -> bool) -> Vec<StepPart> {
    let (mut parts, mut start) = (Vec::new(), 0);
    while start < lengths.len() {
        let edge = lengths[start];
        let shape = |n: usize| StepShape::new(u32::try_from(n).unwrap_or(u32::MAX), edge);
        let n = most(lengths.len() - start, |n| fits(start, shape(n)));
        parts.push(StepPart { samples: start..start + n, extent: edge.into() });
        start += n;
    }
    parts
}

/// Returns how many of so many samples fit, one at least.
fn most(n: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut least, mut beyond) = (1, n + 1);
    while least + 1 < beyond {
        let middle = least + (beyond - least) / 2;
        if fits(middle) { least = middle } else { beyond = middle }
    }
    least
}

#[cfg(test)]
mod tests {
    use plimsoll_predict::{Dtype, Platform};
    use plimsoll_types::{Features, Recompute};

    use super::*;

    const PART: StepShape = StepShape::new(8, 1);

    fn needs(features: Features) -> ProgramNeeds {
        let platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
        let keys = Keys { recompute: Recompute::NEVER, platform, small_batch: 0 };
        ProgramNeeds::try_new(keys, PredictorConfig::of_lengths(features).unwrap(), false).unwrap()
    }

    fn ran(shape: StepShape) -> RanPart {
        let part = StepPart { samples: 0..shape.samples as usize, extent: shape.extent() };
        let (resident, peak, page) = (Bytes::ZERO, Some(Bytes::mib(1)), Bytes::ZERO);
        RanPart { part, resident, peak, page, nodes: 0, group: 0, beside: None }
    }

    #[test]
    fn replicas_share_what_takes_as_long_and_none_has_a_smallest_batch() {
        let replicas = Replicas::start(2, || ()).unwrap();
        let sizes = |small_batch, lengths: &[u32]| {
            let mut needs = needs(Features::default());
            needs.keys.small_batch = small_batch;
            needs.learn(&[ran(PART), ran(StepShape::new(1, 1))], Bytes::ZERO);
            let room = Room { resident: Bytes::ZERO, gradients: Bytes::ZERO, budget: Bytes::gib(64) };
            let parts = needs.divide_between(&replicas, lengths, room);
            parts.iter().map(|it| it.samples.len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(4, &[7; 33]), [17, 16]);
        assert_eq!(sizes(4, &[1; 8]), [5, 3]);
        assert_eq!(sizes(0, &[40, 40, 10, 10, 10, 10, 10, 10, 10, 10]), [2, 8]);
        assert_eq!(sizes(0, &[5]), [1]);
    }

    #[test]
    fn what_was_refused_is_tried_again_later_and_later_and_what_ran_after_all_was_never_too_large() {
        let mut needs = needs(Features::default());
        needs.learn(&[ran(PART)], Bytes::ZERO);
        let fits = |needs: &ProgramNeeds| needs.fits(PART, Bytes::ZERO, Bytes::gib(1));
        let refused = [Attempt::new(PART, Bytes::ZERO), Attempt::new(PART, Bytes::ZERO)];
        needs.learn_failures(&refused, &[ran(PART)]);
        assert!(fits(&needs));
        let mut waited = Vec::new();
        for _ in 0..3 {
            needs.learn_failures(&refused, &[]);
            let small = ran(StepShape::new(1, 1));
            waited.push(
                (0..1000)
                    .take_while(|_| {
                        let waits = !fits(&needs);
                        needs.learn(std::slice::from_ref(&small), Bytes::ZERO);
                        waits
                    })
                    .count(),
            );
        }
        assert_eq!(waited, [16, 32, 64]);
    }

    #[test]
    fn readings_serve_a_later_process_where_they_were_read_for_the_same_features() {
        let [mut before, mut as_before, mut otherwise] =
            [Features::default(), Features::powers(2), Features::powers(3)].map(needs);
        before.learn(&[ran(PART)], Bytes::ZERO);
        for later in [&mut as_before, &mut otherwise] {
            later.recall(before.shown().clone());
        }
        assert_eq!(as_before.predict(PART, Bytes::ZERO), before.predict(PART, Bytes::ZERO));
        assert_eq!(otherwise.predict(PART, Bytes::ZERO), None);
        assert_eq!(
            PredictorConfig::of_lengths(Features::complete(2)).unwrap_err().to_string(),
            "name features over one axis, the length of a sample: these are over 2"
        );
    }

    #[test]
    fn parts_hold_as_many_as_fit_each_at_its_longest_and_every_sample_once() {
        // Two hundred positions fit, and a hundred beside the gradients of earlier parts.
        let fits = |start: usize, shape: StepShape| shape.samples * shape.edge() <= if start == 0 { 200 } else { 100 };
        let parts: Vec<_> =
            parts(&[150, 90, 40, 30, 30, 30, 1], fits).into_iter().map(|it| (it.samples, it.extent.edge())).collect();
        assert_eq!(parts, [(0..1, 150), (1..2, 90), (2..4, 40), (4..7, 30)]);
    }

    #[test]
    fn the_most_that_fit_are_found_and_one_at_least() {
        for n in 1..40 {
            for limit in 0..45 {
                assert_eq!(most(n, |it| it <= limit), limit.clamp(1, n), "{n} {limit}");
            }
        }
    }
}
