//! One step, dealt.

use std::time::Duration;

use plimsoll_sampler::{BatchToDeal, PlannedStep, SamplerError, Speeds, StepBatch, Worked, deal_batches};

use super::{Rule, StepCost, World};
use crate::finder::Random;
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

/// What a device runs of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    n_micro_batches: usize,
    positions: u64,
    /// Positions of the largest micro-batch.
    largest: u64,
}

/// Deals a step as fast as devices are known to be, lets each run its share, and learns from what they take.
///
/// # Errors
///
/// [`SamplerError::Deal`] for a sample that no device has room for.
pub fn run_step(
    step: &PlannedStep,
    world: &World,
    (rule, speeds): (Rule, &mut Speeds),
    cost: &StepCost,
    random: &mut Random,
) -> Result<Stepped, SamplerError> {
    let rooms = rule.rooms(&world.devices);
    let whole = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    let to_deal = |batch: &StepBatch| {
        let limits = rooms.iter().map(|it| whole(it / u64::from(batch.cell[0]))).collect();
        BatchToDeal { n_samples: whole(batch.ids.len() as u64), length: batch.cell[0], multiple_of: 1, limits }
    };
    let batches: Vec<_> = step.batches.iter().map(to_deal).collect();
    let start = cpu_time();
    let (weights, overhead) = rule.weights(&world.devices, speeds);
    let dealt = deal_batches(&weights, overhead, &batches)?;
    let dealing = cpu_time().saturating_sub(start);
    let mut shares = vec![Share::default(); rooms.len()];
    for (BatchToDeal { length, limits, .. }, counts) in batches.into_iter().zip(dealt) {
        for (share, (count, limit)) in shares.iter_mut().zip(counts.into_iter().zip(limits)) {
            share.n_micro_batches += count.div_ceil(limit.max(1)) as usize;
            share.positions += u64::from(length) * u64::from(count);
            share.largest = share.largest.max(u64::from(length) * u64::from(count.min(limit)));
        }
    }
    let mut stepped = Stepped { dealing, ..Stepped::default() };
    let mut worked = Vec::new();
    for (Share { n_micro_batches, positions, largest }, device) in shares.into_iter().zip(&world.devices) {
        let seconds = cost.seconds(n_micro_batches, positions, device.speed) * (world.noise * normal(random)).exp();
        worked.push(Worked { positions, took: Duration::from_secs_f64(seconds) });
        stepped.seconds.push(seconds);
        stepped.used.push(largest as f64 / device.room as f64);
    }
    speeds.hear(&worked);
    Ok(stepped)
}

/// Returns a number with mean 0 and standard deviation 1.
///
/// # Sources
///
/// G. E. P. Box and M. E. Muller, A note on the generation of random normal deviates, 1958.
fn normal(random: &mut Random) -> f64 {
    let [radius, angle] = [random.uniform(f64::MIN_POSITIVE, 1.0), random.uniform(0.0, std::f64::consts::TAU)];
    (-2.0 * radius.ln()).sqrt() * angle.cos()
}

#[cfg(test)]
mod tests {
    use super::super::Class;
    use super::*;

    const COST: StepCost = StepCost { step: 1e-3, micro_batch: 5e-3, position: 1e-5 };

    /// Runs ten steps of four batches, and returns what the last came to.
    fn last(world: &World, rule: Rule, cost: &StepCost) -> Stepped {
        let batch = |edge: u32| StepBatch { ids: (0..49_152 / u64::from(edge)).collect(), cell: [edge] };
        let batches = [512, 128, 64, 256].map(batch).to_vec();
        let step = PlannedStep { epoch: 0, span: 0..4 * 49_152, batches, ends_epoch: false };
        let (mut speeds, mut random) = (Speeds::unknown(world.devices.len()), Random::new(1));
        let mut run = || run_step(&step, world, (rule, &mut speeds), cost, &mut random).unwrap();
        (0..9).for_each(|_| drop(run()));
        run()
    }

    #[test]
    fn two_devices_of_unequal_memory_and_speed_use_their_room_and_outrun_two_of_the_smaller() {
        let [world, _] = World::pairs();
        let alike = last(&world, Rule::Smallest, &COST).slowest();
        for rule in [Rule::Room, Rule::Speed] {
            let own = last(&world, rule, &COST);
            assert!(1.3 <= alike / own.slowest(), "{rule:?} {}", alike / own.slowest());
            assert!(own.used.iter().all(|it| 0.9 <= *it), "{rule:?} {:?}", own.used);
        }
    }

    #[test]
    fn memory_alone_is_no_reason_to_take_more_of_a_step() {
        let [_, world] = World::pairs();
        // A quarter of what a full micro-batch takes is its own cost, which the larger device pays half as often.
        let cost = StepCost { micro_batch: 5e-2, ..COST };
        let [alike, by_room, by_speed] = [Rule::Smallest, Rule::Room, Rule::Speed].map(|it| last(&world, it, &cost));
        assert!(by_speed.slowest() < alike.slowest() && alike.slowest() < by_room.slowest());
        assert!(by_speed.idle() < 0.05, "{by_speed:?}");
    }

    #[test]
    fn times_that_vary_begin_no_other_micro_batch_for_a_few_samples() {
        let devices = vec![Class { name: "", room: 16_384, speed: 1.0 }; 8];
        let world = |noise| World { name: "", devices: devices.clone(), noise };
        // What is full where all take as long, and what a micro-batch takes by itself is a quarter of it.
        let batch = StepBatch { ids: (0..8 * 128).collect(), cell: [128] };
        let cost = StepCost { micro_batch: 4e-2, ..COST };
        let step = PlannedStep { epoch: 0, span: 0..1, batches: vec![batch; 2], ends_epoch: false };
        let (mut speeds, mut random) = (Speeds::unknown(8), Random::new(1));
        let mut mean = |world: &World| {
            let steps =
                (0..50).map(|_| run_step(&step, world, (Rule::Speed, &mut speeds), &cost, &mut random).unwrap());
            steps.map(|it| it.slowest()).sum::<f64>()
        };
        let (even, noisy) = (mean(&world(0.0)), mean(&world(0.03)));
        // The slowest of eight is 4 % above the mean.
        assert!(noisy < 1.05 * even, "{noisy} {even}");
    }

    #[test]
    fn equal_devices_do_not_wait_for_each_other_whatever_the_rule() {
        let devices = vec![World::pairs()[0].devices[0]; 2];
        for rule in Rule::ALL {
            let idle = last(&World { name: "", devices: devices.clone(), noise: 0.0 }, rule, &COST).idle();
            assert!(idle < 1e-12, "{rule:?} {idle}");
        }
    }
}
