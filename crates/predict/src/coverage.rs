//! How sure a count of violations makes one.

use std::fmt;

use serde::Serialize;

use crate::PredictError;
use crate::binomial::chance_of_at_most;
use crate::config::check_range;

/// Halvings of an interval of width 1: below the spacing of floats.
const N_HALVINGS: u32 = 60;

/// Returns the exact two-sided interval of the probability of a violation, after `n_violations` in `n` independent
/// trials.
///
/// The interval holds the true probability in at least the share `confidence` of all series of trials, whatever that
/// probability is.
/// Without a trial it is everything from 0 to 1.
/// Trials must be independent: readings of the same shape one after the other are not.
///
/// # Errors
///
/// [`PredictError::MoreViolationsThanTrials`], or [`PredictError::OutOfRange`] for a confidence outside of 0 to 0.999999.
///
/// # Sources
///
/// Clopper and Pearson, *The use of confidence or fiducial limits illustrated in the case of the binomial* (1934).
pub fn clopper_pearson(n_violations: u64, n: u64, confidence: f64) -> Result<(f64, f64), PredictError> {
    check_range("confidence", confidence, 0.0..=0.999_999)?;
    if n_violations > n {
        return Err(PredictError::MoreViolationsThanTrials { n_violations, n });
    }
    let tail = (1.0 - confidence) / 2.0;
    let lower = 1.0 - upper_limit(n - n_violations, n, tail);
    Ok((lower, upper_limit(n_violations, n, tail)))
}

/// Returns the probability at which at most `n_violations` of `n` have the chance `tail`.
fn upper_limit(n_violations: u64, n: u64, tail: f64) -> f64 {
    if n_violations == n {
        return 1.0;
    }
    let (mut low, mut high) = (n_violations as f64 / n as f64, 1.0);
    for _ in 0..N_HALVINGS {
        let middle = f64::midpoint(low, high);
        if chance_of_at_most(n_violations, n, middle) > tail { low = middle } else { high = middle }
    }
    high
}

/// How often a bound was violated, with the sample size that the statement rests on.
///
/// # Example
///
/// ```
/// let coverage = plimsoll_predict::Coverage::try_new(0, 3000, 0.95)?;
/// assert_eq!(coverage.to_string(), "0 of 3 000: at most 0.12 % at 95 %");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Trials above their bound.
    pub n_violations: u64,
    /// All trials.
    pub n: u64,
    /// Share of all series of trials whose interval holds the true probability.
    pub confidence: f64,
    /// The least that the probability of a violation may be.
    pub lower: f64,
    /// The most that it may be.
    pub upper: f64,
}

impl Coverage {
    /// States what a count of violations says.
    ///
    /// # Errors
    ///
    /// As [`clopper_pearson`].
    pub fn try_new(n_violations: u64, n: u64, confidence: f64) -> Result<Self, PredictError> {
        let (lower, upper) = clopper_pearson(n_violations, n, confidence)?;
        Ok(Self { n_violations, n, confidence, lower, upper })
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: ", Grouped(self.n_violations), Grouped(self.n))?;
        match self.n_violations {
            0 => write!(f, "at most {} %", Percent(self.upper))?,
            _ => write!(f, "{} to {} %", Percent(self.lower), Percent(self.upper))?,
        }
        // The shortest of the decimals that a confidence like 0.999 needs.
        write!(f, " at {} %", (self.confidence * 1e6).round() / 1e4)
    }
}

/// A count with a space between its thousands.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1000 => write!(f, "{}", self.0),
            n => write!(f, "{} {:03}", Self(n / 1000), n % 1000),
        }
    }
}

/// A fraction in percent, with two decimals, or with four or six where it is small.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        match percent {
            ..5e-7 => write!(f, "0.00"),
            ..1e-3 => write!(f, "{percent:.6}"),
            ..1e-1 => write!(f, "{percent:.4}"),
            _ => write!(f, "{percent:.2}"),
        }
    }
}
