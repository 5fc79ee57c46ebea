//! A whole run against a loop of Burn's own.

use std::fmt;

use plimsoll_types::Bytes;
use serde::Serialize;

/// A run with nothing set but its data, and Burn's own loop on the same samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WholeRun {
    /// The job.
    pub job: String,
    /// What its lengths count.
    pub unit: String,
    /// Optimizer steps of the run.
    pub steps: usize,
    /// Samples of a step: the mean over the run, which the loop takes too.
    pub samples_per_step: usize,
    /// From its start to its end in seconds: planning, validations, checkpoints and the report included.
    pub seconds: f64,
    /// Tokens or frames without padding per second of that.
    pub units_per_second: f64,
    /// Tokens or frames without padding per second of its steps.
    pub units_per_second_of_steps: f64,
    /// The most that a step reached.
    pub peak: Bytes,
    /// Steps that were above their bound.
    pub above_bound: usize,
    /// Burn's own loop at the batch that suits it best.
    pub own_loop: OwnLoop,
    /// All batches that were tried.
    pub sweep: Vec<OwnLoop>,
}

/// What a loop did whose batches have as many samples each, in random order and padded to their longest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OwnLoop {
    /// Samples of a batch.
    pub batch_size: usize,
    /// Tokens or frames without padding per second.
    pub units_per_second: f64,
    /// The most that the process held.
    pub peak: Bytes,
}

impl fmt::Display for WholeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, unit, steps, units_per_second, units_per_second_of_steps, own_loop, peak, above_bound, .. } =
            self;
        let OwnLoop { batch_size, units_per_second: own, peak: own_peak } = own_loop;
        write!(
            f,
            "{job}: {steps} steps as shipped, {units_per_second_of_steps:.0} {unit} per second of its steps and \
             {units_per_second:.0} of all its time, {peak}, {above_bound} above the bound\n\
             Burn's own loop, batches of {batch_size}: {own:.0} {unit} per second, {own_peak}; ratios {:.2} and {:.2}",
            units_per_second_of_steps / own,
            units_per_second / own,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_with_both_ratios() {
        let own_loop = OwnLoop { batch_size: 4, units_per_second: 1000.0, peak: Bytes::mib(60) };
        let run = WholeRun {
            job: "text".to_owned(),
            unit: "tokens".to_owned(),
            steps: 300,
            units_per_second: 1500.0,
            units_per_second_of_steps: 2000.0,
            peak: Bytes::mib(50),
            own_loop,
            ..WholeRun::default()
        };
        insta::assert_snapshot!(run, @"
        text: 300 steps as shipped, 2000 tokens per second of its steps and 1500 of all its time, 50.00 MiB, 0 above the bound
        Burn's own loop, batches of 4: 1000 tokens per second, 60.00 MiB; ratios 2.00 and 1.50
        ");
    }
}
