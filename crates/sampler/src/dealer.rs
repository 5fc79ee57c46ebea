//! Which device takes how many samples of each batch of a step.

use std::cmp::Reverse;

use crate::DealError;

/// A device gives samples to others, and takes some of theirs, up to this part of what it has of a batch.
///
/// Where times vary by 3 %, and a micro-batch takes a quarter of a full one by itself, eight equal devices that began another for
/// a few samples were slower by 23 % (simulated by `scaling` in the crate plimsoll-proof).
const FEW: u32 = 8;

/// All devices take of a batch of which each has a piece that takes so many times what a micro-batch takes by itself; where nobody
/// says what that is, it is this part of all that one takes.
const LARGE: f64 = 8.0;

/// Samples of a step that are padded to one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchToDeal {
    /// How many there are.
    pub n_samples: u32,
    /// What each is padded to.
    pub length: u32,
    /// Of how many at once they are dealt, all but the last: 1, or what shapes are to be multiples of.
    pub multiple_of: u32,
    /// The most that each device holds at once of that length; one that holds none takes none.
    pub limits: Vec<u32>,
}

/// Divides the batches of one step between devices that take as much as `weights` say beside each other, such as their speeds, and
/// returns how many samples of each batch each device takes.
///
/// `overhead` is what a micro-batch takes by itself, in padded positions of a device of weight 1: in seconds, where weights are
/// positions a second. Without, it is taken to be an eighth of all that a micro-batch takes.
///
/// What a device holds at once bounds its micro-batches and not its share, of which it runs one after the other.
/// Batches that few devices hold are dealt first, then the largest.
/// One of which each device has a piece that takes at least eight times what a micro-batch takes by itself is divided between all.
/// Any other goes to whoever has least to do: whole where that is more than its share by no more than another micro-batch would
/// cost, and else cut there, the rest to the next.
/// So there are few more micro-batches than one device would run, and the smallest make even what the larger have not.
/// A device that has a few samples more than fill its micro-batches gives them to those that have room in theirs.
/// A share may be empty.
///
/// It is a function of its arguments alone: devices that know each other's speeds and limits deal alike without a word.
/// It takes some 90 ns for each device and batch, see the benchmark `draw`.
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
/// let short = BatchToDeal { n_samples: 48, length: 512, multiple_of: 1, limits: vec![16, 8] };
/// let long = BatchToDeal { n_samples: 2, length: 4_000, multiple_of: 1, limits: vec![2, 0] };
/// assert_eq!(deal_batches(&[2.0, 1.0], None, &[short, long])?, [[27, 21], [2, 0]]);
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
///
/// # Sources
///
/// Whole batches to whoever has least to do: R. L. Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17,
/// 1969. Cuts where a share is full, the wrap-around rule: Scheduling with deadlines and loss functions, Management Science 6, 1959.
pub fn deal_batches(
    weights: &[f64],
    overhead: Option<f64>,
    batches: &[BatchToDeal],
) -> Result<Vec<Vec<u32>>, DealError> {
    let mut dealer = Dealer::new(weights, overhead, batches);
    let mut order: Vec<_> = (0..batches.len()).collect();
    let n_takers = |at: &usize| batches[*at].limits.iter().filter(|it| 0 < **it).count();
    order.sort_by_cached_key(|at| (n_takers(at), Reverse(batches[*at].positions())));
    let mut counts = vec![Vec::new(); batches.len()];
    for at in order {
        counts[at] = dealer.deal(&batches[at])?;
    }
    Ok(counts)
}

impl BatchToDeal {
    /// Padded positions of all samples.
    fn positions(&self) -> u64 {
        u64::from(self.n_samples) * u64::from(self.length.max(1))
    }

    /// Micro-batches, of devices that hold as much as these do on average.
    fn n_micro_batches(&self) -> f64 {
        let held: f64 = self.limits.iter().map(|it| f64::from(*it)).sum();
        (f64::from(self.n_samples) * self.limits.len() as f64 / held.max(1.0)).ceil()
    }
}

/// A step that is being dealt.
struct Dealer {
    /// What each device takes beside the others, all of them together 1.
    weights: Vec<f64>,
    /// The padded positions of all batches.
    all: f64,
    /// Those of the batches that have been dealt.
    dealt: f64,
    /// Those that each device has taken.
    taken: Vec<f64>,
    /// Those that all devices together run while each begins a micro-batch.
    overhead: f64,
}

impl Dealer {
    fn new(weights: &[f64], overhead: Option<f64>, batches: &[BatchToDeal]) -> Self {
        assert!(weights.iter().all(|it| 0.0 < *it && it.is_finite()), "weights are above 0: {weights:?}");
        let sum: f64 = weights.iter().sum();
        let all = batches.iter().map(|it| it.positions() as f64).sum();
        let n_micro_batches: f64 = batches.iter().map(BatchToDeal::n_micro_batches).sum();
        let usual = || all * (weights.len() as f64 / n_micro_batches.max(1.0)).min(1.0) / LARGE;
        Self {
            weights: weights.iter().map(|it| it / sum).collect(),
            all,
            dealt: 0.0,
            taken: vec![0.0; weights.len()],
            overhead: overhead.map_or_else(usual, |it| it * sum),
        }
    }

    /// The padded positions that a device lacks of its share of so many.
    fn owed(&self, at: usize, of: f64) -> f64 {
        of * self.weights[at] - self.taken[at]
    }

    fn deal(&mut self, batch: &BatchToDeal) -> Result<Vec<u32>, DealError> {
        let BatchToDeal { n_samples, length, multiple_of, limits } = batch;
        assert_eq!(limits.len(), self.taken.len(), "a limit for each device");
        let takers: Vec<_> = (0..limits.len()).filter(|at| 0 < limits[*at]).collect();
        if takers.is_empty() {
            return Err(DealError::NobodyTakes { length: *length });
        }
        let positions = batch.positions() as f64;
        self.dealt += positions;
        // So many samples are dealt at once.
        let piece = (*multiple_of).max(1);
        let (n_pieces, sample) = (n_samples.div_ceil(piece), f64::from((*length).max(1)));
        let mut counts = if LARGE * self.overhead <= positions {
            let none = vec![0; limits.len()];
            self.shared(none, takers, n_pieces, (sample * f64::from(piece), self.dealt))
        } else {
            self.filled(n_pieces, sample * f64::from(piece), takers)
        };
        give_few(&mut counts, &limits.iter().map(|it| it.div_ceil(piece)).collect::<Vec<_>>());
        for count in &mut counts {
            *count *= piece;
        }
        if let Some(last) = counts.iter_mut().rfind(|it| 0 < **it) {
            *last -= n_pieces * piece - n_samples;
        }
        self.taken.iter_mut().zip(&counts).for_each(|(taken, count)| *taken += f64::from(*count) * sample);
        Ok(counts)
    }

    /// Returns how many samples each takes, which fill the shares of all batches one after the other, from that of who has least to
    /// do.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not less than 0, or more than there are"
    )]
    fn filled(&self, n_samples: u32, sample: f64, mut takers: Vec<usize>) -> Vec<u32> {
        let busy: Vec<_> = self.taken.iter().zip(&self.weights).map(|(taken, weight)| taken / weight).collect();
        takers.sort_unstable_by(|a, b| busy[*a].total_cmp(&busy[*b]).then(a.cmp(b)));
        let (mut counts, mut left, mut of_batch) = (vec![0; self.taken.len()], n_samples, Vec::new());
        let ends = takers.iter().any(|at| {
            let (owed, little) = (self.owed(*at, self.all), self.overhead * self.weights[*at]);
            let is_last = f64::from(left) * sample <= owed + little;
            if is_last || little <= owed {
                counts[*at] = left.min((owed / sample) as u32);
                left -= counts[*at];
                of_batch.push(*at);
            }
            is_last
        });
        self.shared(counts, if ends { of_batch } else { takers }, left, (sample, self.all))
    }

    /// Adds the samples that are left to those of some, by their shares of so many positions.
    fn shared(&self, mut counts: Vec<u32>, takers: Vec<usize>, left: u32, (sample, of): (f64, f64)) -> Vec<u32> {
        let owed: Vec<_> = (0..).zip(&counts).map(|(at, it)| self.owed(at, of) / sample - f64::from(*it)).collect();
        let more = self.rounded(&self.lacking(left, &owed, takers), left);
        counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        counts
    }

    /// Returns how many samples each of some lacks, in parts of one, all of them together as many as are left: who lacks too little
    /// for any lacks none, and what is too much or too little together, each has as its weight is.
    fn lacking(&self, left: u32, owed: &[f64], mut takers: Vec<usize>) -> Vec<f64> {
        let mut lacking = vec![0.0; owed.len()];
        takers.retain(|_| 0 < left);
        loop {
            let sum = |of: &[f64]| takers.iter().map(|at| of[*at]).sum::<f64>();
            let more = (f64::from(left) - sum(owed)) / sum(&self.weights);
            for at in &takers {
                lacking[*at] = (owed[*at] + more * self.weights[*at]).max(0.0);
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
