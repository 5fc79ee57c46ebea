//! A margin for noise: up at once, down slowly.

use serde::{Deserialize, Serialize};

/// Observations over which an unchallenged margin falls to `1/e` of itself.
const DECAY: f64 = 2000.0;

/// What a margin is set to after an excess, as a multiple of the excess.
const LIFT: f64 = 1.25;

/// Parts per billion in one.
const BILLION: f64 = 1e9;

/// The least margin: 0.5 %, the noise that was put on the simulated traces behind these constants.
const FLOOR_PPB: u64 = 5_000_000;

/// The margin that readings of one thing need above an earlier reading, learnt from how far they exceeded it.
///
/// With the excess `e = reading / earlier - 1`, each observation sets
///
/// ```text
/// margin <- max { margin · exp(-1/2000), 1.25 · e if e > margin, 0.5 % }
/// ```
///
/// # What it guarantees
///
/// After an excess of `r` that was above the margin, the margin is at least `r` for the next 446 observations, since
/// `1.25 · exp(-446/2000) > 1`: as long as no later excess is above `r`, none of those is above the margin.
/// It says nothing about an excess larger than any before, and states no probability.
///
/// # Why not a quantile
///
/// A rule that aims at 0.1 % of violations needs thousands of observations before its average means anything; this one
/// answers the first violation at once.
/// In simulated traces of 3000 steps with 0.5 % of noise and one change of the program, 0.07 to 0.19 % of the readings
/// were above a bound kept this way, 0.18 to 0.74 % above one that tracked the quantile.
///
/// The margin is kept in whole parts per billion, rounded up, so that what is written is what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratchet {
    margin_ppb: u64,
}

impl Default for Ratchet {
    fn default() -> Self {
        Self { margin_ppb: FLOOR_PPB }
    }
}

impl Ratchet {
    /// Returns the fraction to add to the earlier reading.
    pub fn margin(self) -> f64 {
        self.margin_ppb as f64 / BILLION
    }

    /// Learns by which fraction a reading exceeded the earlier one, and tells whether that was above the margin.
    ///
    /// A reading that is lower counts as one without excess, and so does NaN.
    pub fn observe(&mut self, excess: f64) -> bool {
        let is_above = excess > self.margin();
        let lifted = if is_above { LIFT * excess } else { 0.0 };
        let wanted = (self.margin() * (-1.0 / DECAY).exp()).max(lifted);
        self.margin_ppb = parts_per_billion(wanted).max(FLOOR_PPB);
        is_above
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float-to-integer cast saturates, and a margin is not negative"
)]
fn parts_per_billion(fraction: f64) -> u64 {
    (fraction * BILLION).ceil() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_guarantee_ends_after_446_observations_and_not_before() {
        let mut ratchet = Ratchet::default();
        assert!(ratchet.observe(0.04));
        for n_later in 1..=446 {
            assert!(!ratchet.observe(0.0), "{n_later}");
            assert!(ratchet.margin() >= 0.04, "{n_later}: {}", ratchet.margin());
        }
        ratchet.observe(0.0);
        assert!(ratchet.margin() < 0.04, "{}", ratchet.margin());
    }

    #[test]
    fn an_unchallenged_margin_falls_to_its_floor_and_no_further() {
        let mut ratchet = Ratchet::default();
        ratchet.observe(1.0);
        assert!((ratchet.margin() - 1.25).abs() < 1e-9);
        (0..20_000).for_each(|_| assert!(!ratchet.observe(-1.0)));
        assert!((ratchet.margin() - 0.005).abs() < 1e-12, "{}", ratchet.margin());
    }

    #[test]
    fn what_is_no_number_or_endless_does_no_harm() {
        let mut ratchet = Ratchet::default();
        assert!(!ratchet.observe(f64::NAN));
        assert_eq!(ratchet, Ratchet::default());
        assert!(ratchet.observe(f64::INFINITY));
        assert!(ratchet.margin().is_finite());
    }

    proptest! {
        #[test]
        fn after_a_violation_nothing_as_large_is_one_for_446_observations(
            before in prop::collection::vec(-0.5..0.5f64, 0..50), first in 0.0..0.5f64,
            later in prop::collection::vec(0.0..=1.0f64, 446),
        ) {
            let mut ratchet = Ratchet::default();
            for excess in before {
                ratchet.observe(excess);
            }
            let violation = ratchet.margin() * 1.001 + first;
            prop_assert!(ratchet.observe(violation));
            for share in later {
                prop_assert!(!ratchet.observe(share * violation));
            }
        }

        #[test]
        fn what_is_written_is_what_is_read(excesses in prop::collection::vec(-0.5..3.0f64, 0..50)) {
            let mut ratchet = Ratchet::default();
            for excess in excesses {
                ratchet.observe(excess);
                let text = serde_json::to_string(&ratchet).unwrap();
                prop_assert_eq!(serde_json::from_str::<Ratchet>(&text).unwrap(), ratchet);
            }
        }
    }
}
