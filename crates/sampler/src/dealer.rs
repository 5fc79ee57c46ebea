//! Which device takes how many samples of each batch of a step.

use std::cmp::Reverse;

use crate::DealError;

/// A device gives samples to others, and takes some of theirs, up to this part of what it has of a batch.
///
/// Where times vary by 3 %, and a micro-batch takes a quarter of a full one by itself, eight equal devices that began another for
/// a few samples were slower by 23 % (simulated by `scaling` in the crate plimsoll-proof).
const FEW: u32 = 8;

/// Samples of a step that are padded to one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchToDeal {
    /// How many there are.
    pub n_samples: u32,
    /// What each is padded to.
    pub length: u32,
    /// The most that each device holds at once of that length; one that holds none takes none.
    pub limits: Vec<u32>,
}

/// Divides the batches of one step between devices that take as much as `weights` say beside each other, such as their speeds, and
/// returns how many samples of each batch each device takes.
///
/// What a device holds at once bounds its micro-batches and not its share, of which it runs one after the other.
/// The longest samples are dealt first. What does not come out even is owed, in padded positions, and made good by the batches that
/// follow: also what a device could not take because it holds no sample of that length.
/// A device that has a few samples more than fill its micro-batches gives them to those that have room in theirs.
/// A share may be empty.
///
/// It is a function of its arguments alone: devices that know each other's speeds and limits deal alike without a word.
/// It takes some 35 ns for each device and batch, see the benchmark `draw`.
///
/// # Errors
///
/// [`DealError::NobodyTakes`] for samples that no device holds.
///
/// # Panics
///
/// Where a weight is not above 0, or a batch does not have a limit for each device.
///
/// # Example
///
/// ```
/// use plimsoll_sampler::{BatchToDeal, deal_batches};
///
/// // A card that is twice as fast as another, and holds 16 samples of 512 tokens where that holds 8; of 4 000 tokens it holds 2,
/// // and the other none.
/// let short = BatchToDeal { n_samples: 48, length: 512, limits: vec![16, 8] };
/// let long = BatchToDeal { n_samples: 2, length: 4_000, limits: vec![2, 0] };
/// assert_eq!(deal_batches(&[2.0, 1.0], &[short, long])?, [[27, 21], [2, 0]]);
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
pub fn deal_batches(weights: &[f64], batches: &[BatchToDeal]) -> Result<Vec<Vec<u32>>, DealError> {
    let mut dealer = Dealer::new(weights);
    let mut order: Vec<_> = (0..batches.len()).collect();
    order.sort_by_key(|at| Reverse(batches[*at].length));
    let mut counts = vec![Vec::new(); batches.len()];
    for at in order {
        counts[at] = dealer.deal(&batches[at])?;
    }
    Ok(counts)
}

/// A step that is being dealt.
struct Dealer {
    /// What each device takes beside the others, all of them together 1.
    weights: Vec<f64>,
    /// The padded positions that each lacks.
    owed: Vec<f64>,
}

impl Dealer {
    fn new(weights: &[f64]) -> Self {
        assert!(weights.iter().all(|it| 0.0 < *it && it.is_finite()), "weights are above 0: {weights:?}");
        let all: f64 = weights.iter().sum();
        Self { weights: weights.iter().map(|it| it / all).collect(), owed: vec![0.0; weights.len()] }
    }

    fn deal(&mut self, BatchToDeal { n_samples, length, limits }: &BatchToDeal) -> Result<Vec<u32>, DealError> {
        assert_eq!(limits.len(), self.owed.len(), "a limit for each device");
        if limits.iter().all(|it| *it == 0) {
            return Err(DealError::NobodyTakes { length: *length });
        }
        let sample = f64::from((*length).max(1));
        let positions = f64::from(*n_samples) * sample;
        self.owed.iter_mut().zip(&self.weights).for_each(|(owed, weight)| *owed += positions * weight);
        let mut counts = self.rounded(&self.lacking(*n_samples, sample, limits), *n_samples);
        give_few(&mut counts, limits);
        self.owed.iter_mut().zip(&counts).for_each(|(owed, count)| *owed -= f64::from(*count) * sample);
        Ok(counts)
    }

    /// Returns how many samples each lacks, in parts of one, all of them together so many: who lacks too little for any lacks
    /// none, and what is too much or too little together, each has as its weight is.
    fn lacking(&self, n_samples: u32, sample: f64, limits: &[u32]) -> Vec<f64> {
        let mut lacking = vec![0.0; limits.len()];
        let mut takers: Vec<_> = (0..limits.len()).filter(|at| 0 < limits[*at] && 0 < n_samples).collect();
        loop {
            let sum = |of: &[f64]| takers.iter().map(|at| of[*at]).sum::<f64>();
            let more = (f64::from(n_samples) - sum(&self.owed) / sample) / sum(&self.weights);
            for at in &takers {
                lacking[*at] = (self.owed[*at] / sample + more * self.weights[*at]).max(0.0);
            }
            let n_before = takers.len();
            takers.retain(|at| 0.0 < lacking[*at]);
            if takers.len() == n_before {
                return lacking;
            }
        }
    }

    /// Makes whole numbers of parts, so many in all: those are rounded up for whom the rest of a sample takes least time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not less than 0, or more than there are"
    )]
    fn rounded(&self, parts: &[f64], n_samples: u32) -> Vec<u32> {
        let mut counts: Vec<_> = parts.iter().map(|it| *it as u32).collect();
        let left = n_samples.saturating_sub(counts.iter().sum()) as usize;
        let late = |at: usize| (1.0 - parts[at].fract()) / self.weights[at];
        let mut order: Vec<_> = (0..parts.len()).filter(|at| 0.0 < parts[*at]).collect();
        if left < order.len() {
            order.select_nth_unstable_by(left, |a, b| late(*a).total_cmp(&late(*b)).then(a.cmp(b)));
        }
        order.into_iter().take(left).for_each(|at| counts[at] += 1);
        counts
    }
}

/// Moves a few samples for which a device would begin another micro-batch to those that have room in theirs.
fn give_few(counts: &mut [u32], limits: &[u32]) {
    // Beyond the last full micro-batch.
    let rest = |count: u32, limit: u32| if limit < count { count.checked_rem(limit).unwrap_or(0) } else { 0 };
    let few = |count: u32, limit: u32| Some(rest(count, limit)).filter(|it| *it <= count / FEW).unwrap_or(0);
    let room = |count: u32, limit: u32| match few(count, limit) {
        0 => (count.next_multiple_of(limit.max(1)) - count).min(count / FEW),
        _ => 0,
    };
    let mut room_left: u32 = counts.iter().zip(limits).map(|(count, limit)| room(*count, *limit)).sum();
    let mut to_give = 0;
    for (count, limit) in counts.iter_mut().zip(limits) {
        let few = few(*count, *limit);
        if few <= room_left {
            (*count, room_left, to_give) = (*count - few, room_left - few, to_give + few);
        }
    }
    for (count, limit) in counts.iter_mut().zip(limits) {
        let takes = room(*count, *limit).min(to_give);
        (*count, to_give) = (*count + takes, to_give - takes);
    }
}
