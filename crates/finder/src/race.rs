//! The fastest of the batches that fit.

use serde::{Deserialize, Serialize};

use crate::FinderError;
use crate::found::count;

/// Most batches that are timed: with each half of the one before, they span a factor of 32.
const MAX_BATCHES: usize = 6;

/// Timed steps of a batch. The first compiles, tunes and fills caches, and is not counted.
const N_STEPS: usize = 5;

/// Gain below which the smaller batch wins: it leaves more headroom, and timing hides less than this.
const MIN_GAIN: f64 = 0.03;

/// Median absolute deviations below which the smaller batch wins: a gain within them may be chance.
const MIN_DEVIATIONS: f64 = 2.0;

/// Gain from which the larger batch wins, however much the times vary: nobody calls a tenth a tie.
const MOST_GAIN_LOST: f64 = 0.1;

/// Times a few steps of some certified batches and names the one with the most samples per second.
///
/// A batch beats a smaller one when the medians of their rates differ by more than 3 % and by more than two median
/// absolute deviations, the larger of the two, or by more than 10 %.
/// The largest batch runs first, since the largest allocation settles the size of an allocator's pages.
///
/// # Example
///
/// ```
/// use plimsoll_finder::Race;
///
/// let mut race = Race::below(64, 16)?;
/// while let Some(batch) = race.turn() {
///     // A step takes 10 ms, and above 32 samples 1 ms for each.
///     let seconds = 0.010 + 0.001 * f64::from(batch.saturating_sub(32));
///     race.on_step(batch, seconds)?;
/// }
/// assert_eq!(race.winner().map(|it| (it.batch, it.samples_per_second.round())), Some((32, 3200.0)));
/// # Ok::<(), plimsoll_finder::FinderError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Race {
    /// Largest batch first.
    lanes: Vec<Lane>,
}

/// The fastest batch, or the smallest that is as fast within what timing tells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// Samples in a step.
    pub batch: u32,
    /// Median over the counted steps.
    pub samples_per_second: f64,
    /// Median absolute deviation from it, in samples per second.
    pub deviation: f64,
    /// Batches that were timed to the end.
    pub n_batches: u32,
    /// The batch with the highest median, and that in samples per second: another one where the two are as good as tied.
    pub highest: (u32, f64),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Lane {
    batch: u32,
    /// Of each step so far.
    seconds: Vec<f64>,
    failed: bool,
}

impl Race {
    /// Accepts 1 to 6 batches, in any order.
    ///
    /// # Errors
    ///
    /// [`FinderError::OutOfRange`] for another number of batches, or an empty one.
    pub fn try_new(mut batches: Vec<u32>) -> Result<Self, FinderError> {
        batches.sort_unstable_by(|a, b| b.cmp(a));
        batches.dedup();
        if batches.is_empty() || MAX_BATCHES < batches.len() {
            return Err(FinderError::out_of_range("batches", batches.len(), format!("1 to {MAX_BATCHES} batches")));
        }
        if batches.contains(&0) {
            return Err(FinderError::out_of_range("batch", 0, "at least 1"));
        }
        let lane = |batch| Lane { batch, seconds: Vec::new(), failed: false };
        Ok(Self { lanes: batches.into_iter().map(lane).collect() })
    }

    /// Accepts the largest batch that is certified, its half, and so on; each not below `batch_min`, and at most 6.
    ///
    /// # Errors
    ///
    /// [`FinderError::OutOfRange`] when `largest` is below `batch_min`, or both are zero.
    pub fn below(largest: u32, batch_min: u32) -> Result<Self, FinderError> {
        let halves = (0..MAX_BATCHES).map(|it| largest >> it).filter(|it| batch_min.max(1) <= *it);
        Self::try_new(halves.collect())
    }

    /// Returns the batch of the next step to time, or `None` when all are done.
    pub fn turn(&self) -> Option<u32> {
        self.lanes.iter().find(|it| !it.failed && it.seconds.len() < N_STEPS).map(|it| it.batch)
    }

    /// Learns how long a step took, the wait for the device included.
    ///
    /// # Errors
    ///
    /// [`FinderError::OutOfRange`] for a time that is not positive and finite, or a batch that does not take part;
    /// nothing is learnt then.
    pub fn on_step(&mut self, batch: u32, seconds: f64) -> Result<(), FinderError> {
        if !(seconds.is_finite() && 0.0 < seconds) {
            return Err(FinderError::out_of_range("seconds", seconds, "any time above 0 s"));
        }
        self.lane(batch)?.seconds.push(seconds);
        Ok(())
    }

    /// Takes a batch out of the race: it could not run after all.
    ///
    /// # Errors
    ///
    /// [`FinderError::OutOfRange`] for a batch that does not take part.
    pub fn on_failure(&mut self, batch: u32) -> Result<(), FinderError> {
        self.lane(batch)?.failed = true;
        Ok(())
    }

    /// Returns the smallest batch that no other beats, or `None` before one has been timed to the end.
    pub fn winner(&self) -> Option<Winner> {
        let timed: Vec<_> = self.lanes.iter().filter_map(Lane::rate).collect();
        let is_beaten = |it: &Rate| timed.iter().any(|other| it.is_beaten_by(*other));
        let winner = timed.iter().rev().find(|it| !is_beaten(it))?;
        let highest = timed.iter().max_by(|a, b| a.median.total_cmp(&b.median)).map(|it| (it.batch, it.median))?;
        let Rate { batch, median: samples_per_second, deviation } = *winner;
        Some(Winner { batch, samples_per_second, deviation, n_batches: count(timed.len()), highest })
    }

    fn lane(&mut self, batch: u32) -> Result<&mut Lane, FinderError> {
        let allowed: Vec<_> = self.lanes.iter().map(|it| it.batch).collect();
        let lane = self.lanes.iter_mut().find(|it| it.batch == batch);
        lane.ok_or_else(|| FinderError::out_of_range("batch", batch, format!("one of {allowed:?}")))
    }
}

/// The rate of a batch in samples per second.
#[derive(Clone, Copy)]
struct Rate {
    batch: u32,
    median: f64,
    deviation: f64,
}

impl Lane {
    fn rate(&self) -> Option<Rate> {
        if self.failed || self.seconds.len() < N_STEPS {
            return None;
        }
        let rates: Vec<_> = self.seconds[1..].iter().map(|it| f64::from(self.batch) / it).collect();
        let middle = median(rates.clone());
        let deviation = median(rates.iter().map(|it| (it - middle).abs()).collect());
        Some(Rate { batch: self.batch, median: middle, deviation })
    }
}

impl Rate {
    fn is_beaten_by(self, other: Self) -> bool {
        let chance = MIN_DEVIATIONS * self.deviation.max(other.deviation);
        (MIN_GAIN * other.median).max(chance).min(MOST_GAIN_LOST * other.median) < other.median - self.median
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs a race in which the counted steps of a batch have these rates in samples per second.
    #[track_caller]
    fn check(rates: &[(u32, [f64; 4])], winner: u32) {
        let mut race = Race::try_new(rates.iter().map(|it| it.0).collect()).unwrap();
        for (batch, rates) in rates {
            race.on_step(*batch, 99.0).unwrap();
            for it in rates {
                race.on_step(*batch, f64::from(*batch) / it).unwrap();
            }
        }
        assert_eq!(race.turn(), None);
        assert_eq!(race.winner().unwrap().batch, winner);
    }

    #[test]
    fn the_smaller_batch_wins_within_three_per_cent_or_two_deviations() {
        check(&[(8, [97.5; 4]), (16, [100.0; 4])], 8);
        check(&[(8, [96.5; 4]), (16, [100.0; 4])], 16);
        check(&[(8, [90.0; 4]), (16, [94.0, 94.0, 106.0, 106.0])], 8);
        check(&[(8, [80.0; 4]), (16, [94.0, 94.0, 106.0, 106.0])], 16);
        // However much the times vary, a tenth is no tie.
        check(&[(8, [89.0; 4]), (16, [80.0, 80.0, 120.0, 120.0])], 16);
    }

    #[test]
    fn a_winner_of_a_tie_names_the_one_that_was_faster_by_chance() {
        let mut race = Race::try_new(vec![8, 16]).unwrap();
        for (batch, rate) in [(8, 98.0), (16, 100.0)] {
            (0..5).for_each(|_| race.on_step(batch, f64::from(batch) / rate).unwrap());
        }
        let Winner { batch, highest: (highest, highest_rate), .. } = race.winner().unwrap();
        assert_eq!((batch, highest, highest_rate.round()), (8, 16, 100.0));
    }

    #[test]
    fn a_smaller_batch_that_is_faster_wins() {
        check(&[(8, [120.0; 4]), (16, [100.0; 4]), (32, [119.0; 4])], 8);
        check(&[(8, [50.0; 4]), (16, [120.0; 4]), (32, [100.0; 4])], 16);
    }

    #[test]
    fn a_batch_that_fails_is_out() {
        let mut race = Race::below(40, 8).unwrap();
        assert_eq!(race.turn(), Some(40));
        race.on_failure(40).unwrap();
        (0..N_STEPS).for_each(|_| race.on_step(20, 1.0).unwrap());
        assert_eq!((race.turn(), race.winner().map(|it| it.batch)), (Some(10), Some(20)));
    }

    #[test]
    fn bad_input_is_refused_with_its_value() {
        let message = |result: Result<(), FinderError>| result.unwrap_err().to_string();
        let mut race = Race::try_new(vec![4, 2]).unwrap();
        assert_eq!(
            message(race.on_step(4, f64::NAN)),
            "find a batch size: `seconds` is NaN, allowed is any time above 0 s"
        );
        assert_eq!(message(race.on_step(4, 0.0)), "find a batch size: `seconds` is 0, allowed is any time above 0 s");
        assert_eq!(message(race.on_step(3, 1.0)), "find a batch size: `batch` is 3, allowed is one of [4, 2]");
        assert_eq!(
            message(Race::try_new(vec![]).map(drop)),
            "find a batch size: `batches` is 0, allowed is 1 to 6 batches"
        );
        assert!(Race::try_new((1..8).collect()).is_err() && Race::try_new(vec![0]).is_err());
        assert!(Race::below(4, 5).is_err() && Race::below(0, 0).is_err());
    }

    proptest! {
        #[test]
        fn a_race_is_thirty_steps_at_most_and_its_winner_is_near_the_best(
            largest in 1u32..5000, batch_min in 1u32..50, times in prop::collection::vec(1u32..640, 30),
        ) {
            let race = Race::below(largest, batch_min);
            prop_assume!(race.is_ok());
            let (mut race, mut n_steps) = (race.unwrap(), 0);
            while let Some(batch) = race.turn() {
                // Sixty-fourths, which a text holds exactly.
                race.on_step(batch, f64::from(times[n_steps]) / 64.0).unwrap();
                n_steps += 1;
            }
            prop_assert!(n_steps <= MAX_BATCHES * N_STEPS);
            let winner = race.winner().unwrap();
            let rates: Vec<_> = race.lanes.iter().filter_map(Lane::rate).collect();
            prop_assert!((batch_min..=largest).contains(&winner.batch));
            for it in rates {
                let within = (MIN_GAIN * it.median).max(MIN_DEVIATIONS * it.deviation.max(winner.deviation));
                prop_assert!(it.median - winner.samples_per_second <= within, "{}, {winner:?}", it.batch);
            }
            let saved = serde_json::to_string(&race).unwrap();
            prop_assert_eq!(serde_json::from_str::<Race>(&saved).unwrap(), race);
        }
    }
}
