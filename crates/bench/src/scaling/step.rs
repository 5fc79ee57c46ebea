//! One step, dealt.

use std::cmp::Reverse;
use std::time::Duration;

use plimsoll_sampler::{SamplerError, Taker, deal};

use super::{Rule, StepCost, World};
use crate::finder::SplitMix64;
use crate::sampler::cpu_time;

/// What one step came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stepped {
    /// How long each device computed, in seconds.
    pub seconds: Vec<f64>,
    /// The part of its room that each used.
    pub used: Vec<f64>,
    /// The processor time that dealing took.
    pub dealing: Duration,
}

impl Stepped {
    /// How long the slowest device computed, in seconds.
    pub fn slowest(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }

    /// The mean share of the step in which a device waits.
    pub fn idle(&self) -> f64 {
        1.0 - self.seconds.iter().sum::<f64>() / self.seconds.len() as f64 / self.slowest()
    }
}

/// Deals samples of these costs, and lets each device run its share.
///
/// # Errors
///
/// [`SamplerError::NobodyTakes`] for a sample that no device has room for.
pub fn run_step(
    costs: &[u64],
    world: &World,
    rule: Rule,
    cost: &StepCost,
    random: &mut SplitMix64,
) -> Result<Stepped, SamplerError> {
    let takers = rule.takers(&world.devices, cost);
    let start = cpu_time();
    let shares = if rule == Rule::Runs { runs(costs, &takers) } else { deal(costs, &takers)? };
    let mut stepped = Stepped { dealing: cpu_time().saturating_sub(start), ..Stepped::default() };
    for ((share, device), limit) in shares.iter().zip(&world.devices).zip(rule.limits(&world.devices)) {
        let costs: Vec<_> = share.iter().map(|at| costs[*at]).collect();
        let batches = micro_batches(&costs, limit, device.speed, cost);
        let seconds = cost.seconds(batches.len(), batches.iter().sum(), device.speed);
        stepped.seconds.push(seconds * (world.noise * normal(random)).exp());
        stepped.used.push(batches.iter().copied().max().unwrap_or(0) as f64 / device.room as f64);
    }
    Ok(stepped)
}

/// Gives each taker samples that follow one another in cost, the costliest to those that can hold the largest, up to its weight's
/// share of all costs.
fn runs(costs: &[u64], takers: &[Taker]) -> Vec<Vec<usize>> {
    let mut samples: Vec<_> = (0..costs.len()).collect();
    samples.sort_by_key(|at| Reverse(costs[*at]));
    let mut order: Vec<_> = (0..takers.len()).collect();
    order.sort_by_key(|at| Reverse(takers[*at].largest));
    let per_weight = costs.iter().sum::<u64>() as f64 / takers.iter().map(|it| it.weight).sum::<u64>() as f64;
    let mut shares = vec![Vec::new(); takers.len()];
    let (mut given, mut to_give) = (0.0, 0.0);
    let mut samples = samples.into_iter().peekable();
    for (taker, left) in order.into_iter().zip((0..takers.len()).rev()) {
        to_give += takers[taker].weight as f64 * per_weight;
        // A sample goes where most of it belongs, and what is left to the last.
        while let Some(at) = samples.next_if(|at| left == 0 || given + costs[*at] as f64 / 2.0 <= to_give) {
            given += costs[at] as f64;
            shares[taker].push(at);
        }
    }
    shares
}

/// Returns the padded positions of each micro-batch of samples, the costliest first, in the division that takes a device of that
/// speed least.
fn micro_batches(costs: &[u64], limit: u64, speed: f64, cost: &StepCost) -> Vec<u64> {
    // The least that the first samples take, and how many of them the last micro-batch has.
    let mut best = vec![(0.0, 0)];
    for end in 1..=costs.len() {
        let with = |n: usize| {
            let positions = n as u64 * costs[end - n];
            let seconds = best[end - n].0 + cost.micro_batch + cost.position * positions as f64 / speed;
            (positions <= limit).then_some((seconds, n))
        };
        // Longer ones, from a costlier sample on, have no room either.
        let least = (1..=end).map_while(with).min_by(|a, b| a.0.total_cmp(&b.0));
        best.push(least.unwrap_or((f64::INFINITY, 1)));
    }
    let (mut batches, mut end) = (Vec::new(), costs.len());
    while 0 < end {
        let n = best[end].1;
        batches.push(n as u64 * costs[end - n]);
        end -= n;
    }
    batches
}

/// Returns a number with mean 0 and standard deviation 1.
///
/// # Sources
///
/// G. E. P. Box and M. E. Muller, A note on the generation of random normal deviates, 1958.
fn normal(random: &mut SplitMix64) -> f64 {
    let [radius, angle] = [random.uniform(f64::MIN_POSITIVE, 1.0), random.uniform(0.0, std::f64::consts::TAU)];
    (-2.0 * radius.ln()).sqrt() * angle.cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: StepCost = StepCost { step: 1e-3, micro_batch: 5e-3, position: 1e-5 };

    fn speed(world: &World, rule: Rule, cost: &StepCost) -> (f64, Vec<f64>) {
        let costs: Vec<_> = (0..2_000).map(|at| 8 * (1 + at * 7919 % 100)).collect();
        let stepped = run_step(&costs, world, rule, cost, &mut SplitMix64::new(1)).unwrap();
        (1.0 / stepped.slowest(), stepped.used)
    }

    #[test]
    fn two_devices_of_unequal_memory_and_speed_use_their_room_and_outrun_two_of_the_smaller() {
        let [world, _] = World::pairs();
        let (alike, _) = speed(&world, Rule::Smallest, &COST);
        for rule in [Rule::Room, Rule::Speed] {
            let (own, used) = speed(&world, rule, &COST);
            assert!(1.3 <= own / alike, "{rule:?} {}", own / alike);
            assert!(used.iter().all(|it| 0.9 <= *it), "{rule:?} {used:?}");
        }
    }

    #[test]
    fn memory_alone_is_no_reason_to_take_more_of_a_step() {
        let [_, world] = World::pairs();
        // A quarter of what a full micro-batch takes is its own cost, which the larger device pays half as often.
        let cost = StepCost { micro_batch: 5e-2, ..COST };
        let [alike, by_room, by_speed] = [Rule::Smallest, Rule::Room, Rule::Speed].map(|it| speed(&world, it, &cost).0);
        assert!(by_room < alike && alike < by_speed, "{by_room} {alike} {by_speed}");
    }

    #[test]
    fn equal_devices_wait_for_each_other_by_less_than_a_sample_whatever_the_rule() {
        let [world, ..] = World::all(8);
        for rule in Rule::ALL {
            let costs = vec![512; 8 * 40];
            let stepped = run_step(&costs, &world, rule, &COST, &mut SplitMix64::new(1)).unwrap();
            assert!(stepped.idle() < 1e-12, "{rule:?}");
        }
    }

    #[test]
    fn micro_batches_are_padded_where_that_is_less_than_one_more() {
        let of = |costs: &[u64], micro_batch| micro_batches(costs, 160, 1.0, &StepCost { micro_batch, ..COST });
        // One more costs as much as a thousand positions, or as twenty, or nothing.
        assert_eq!(of(&[40, 30, 20, 10], 1e-2), [160]);
        assert_eq!(of(&[40, 30, 20, 10], 2e-4), [40, 80]);
        assert_eq!(of(&[40, 30, 20, 10], 0.0), [10, 20, 30, 40]);
        assert_eq!(of(&[90, 80], 1e-2), [80, 90]);
        assert_eq!(of(&[], 1e-2), [0; 0]);
    }

    #[test]
    fn runs_have_every_sample_once_and_as_much_as_their_weights_say() {
        let costs: Vec<_> = (0..100).map(|at| 1 + at * 37 % 50).collect();
        let takers = [(1, 10), (3, 90), (0, 5)].map(|(weight, largest)| Taker { weight, largest });
        let shares = runs(&costs, &takers);
        let sums: Vec<u64> = shares.iter().map(|it| it.iter().map(|at| costs[*at]).sum()).collect();
        assert!(sums[0].abs_diff(sums[1] / 3) <= 50 && sums[2] == 0, "{sums:?}");
        let mut all: Vec<_> = shares.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..100));
    }
}
