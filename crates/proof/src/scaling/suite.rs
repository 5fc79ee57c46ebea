//! All that is simulated.

use plimsoll_sampler::{
    BatchPlanner, CapacityRule, Lattice, PlanConfig, SampleIndex, SamplerError, Speeds, StepPlanner, StepSize,
};

use super::report::{Cluster, Report, Row};
use super::{Exchange, Network, Rule, StepCost, Stepped, World, padded, run_step};
use crate::finder::Random;
use crate::median::median;
use crate::sampler::Recorded;

/// How much is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Samples of a data set.
    pub n_samples: usize,
    /// Numbers of devices.
    pub n_devices: Vec<usize>,
    /// Steps of each case.
    pub n_steps: usize,
    /// Positions of a step whose size does not follow the number of devices.
    pub fixed: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { n_samples: 1_000_000, n_devices: vec![8, 64, 1_024], n_steps: 20, fixed: 4 << 20 }
    }
}

/// Seed of samples and their order.
const SEED: u64 = 1;

/// Steps before those that count, in which speeds become known.
const WARM_UP: usize = 8;

/// How much faster than the measured core a card of speed 1 is.
const FASTER: [f64; 2] = [1.0, 20.0];

/// Values of the gradients that are added: of a small model, and of one that fills a small card.
const N_VALUES: [usize; 2] = [10_000_000, 350_000_000];

/// A step is as many full micro-batches of every device.
const FULL: u64 = 2;

/// The same of few devices, where as many would be a handful of samples.
const FULL_OF_TWO: u64 = 8;

/// Simulates everything on each of these lengths, and tells each row as it comes.
///
/// # Errors
///
/// What [`run_step`] refuses.
pub fn measure(
    sizes: &Sizes,
    recorded: &[Recorded],
    cost: StepCost,
    exchanges: Vec<Exchange>,
    tell: &mut dyn FnMut(&Row),
) -> Result<Report, SamplerError> {
    let mut rows = Vec::new();
    for Recorded { name, lengths } in recorded {
        let data = Data::try_new(name, padded(lengths, sizes.n_samples, SEED), sizes.n_steps)?;
        let mut add = |it: Vec<Row>| {
            it.iter().for_each(&mut *tell);
            rows.extend(it);
        };
        for faster in FASTER {
            let cost = StepCost { position: cost.position / faster, ..cost };
            let full = |n: u64, world: &World| n * world.devices.iter().map(|it| it.room).sum::<u64>();
            for world in World::pairs() {
                add(data.rows(&world, faster, &cost, full(FULL_OF_TWO, &world))?);
            }
            for world in sizes.n_devices.iter().flat_map(|it| World::all(*it)) {
                add(data.rows(&world, faster, &cost, full(FULL, &world))?);
            }
            // Equal ones and unequal ones tell all that there is to tell.
            for world in sizes.n_devices.iter().flat_map(|it| World::all(*it).into_iter().take(2)) {
                add(data.rows(&world, faster, &cost, sizes.fixed)?);
            }
        }
    }
    let clusters = clusters(&exchanges, &rows);
    Ok(Report { cost, exchanges, rows, clusters })
}

struct Data<'a> {
    name: &'a str,
    /// What each sample is padded to.
    index: SampleIndex<1>,
    lattice: Lattice<1>,
    n_steps: usize,
}

/// As many samples at once as all devices have room for together.
#[derive(Clone, Debug, PartialEq)]
struct Together(Vec<u64>);

impl CapacityRule<1> for Together {
    fn capacity(&self, [edge]: [u32; 1]) -> u32 {
        let all: u64 = self.0.iter().map(|room| room / u64::from(edge)).sum();
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}

impl<'a> Data<'a> {
    fn try_new(name: &'a str, costs: Vec<u32>, n_steps: usize) -> Result<Self, SamplerError> {
        let mut edges = costs.clone();
        edges.sort_unstable();
        edges.dedup();
        Ok(Self { name, index: SampleIndex::try_new([costs])?, lattice: Lattice::try_new([edges])?, n_steps })
    }

    /// Returns the steps of as many positions as a run takes of devices that are filled by a rule.
    fn steps(&self, world: &World, rule: Rule, positions: u64) -> Result<StepPlanner<Together>, SamplerError> {
        // A window that holds many batches of a thousand devices, so that each of them is of one edge.
        let (window, lattice) = (Some(self.index.n_samples()), self.lattice.clone());
        let config = PlanConfig { seed: SEED, window, lattice, ..PlanConfig::default() };
        let planner = BatchPlanner::try_new(self.index.clone(), Together(rule.rooms(&world.devices)), config)?;
        Ok(StepPlanner::try_new(&planner, StepSize::Positions(positions))?)
    }

    /// Runs the same steps by every rule.
    fn rows(&self, world: &World, faster: f64, cost: &StepCost, positions: u64) -> Result<Vec<Row>, SamplerError> {
        let mut rows: Vec<Row> = Vec::new();
        for rule in Rule::ALL {
            let mut row = self.row(world, rule, cost, positions)?;
            row.faster = faster;
            row.ratio = rows.first().map_or(1.0, |smallest| row.speed / smallest.speed);
            rows.push(row);
        }
        Ok(rows)
    }

    fn row(&self, world: &World, rule: Rule, cost: &StepCost, positions: u64) -> Result<Row, SamplerError> {
        let mut planned = self.steps(world, rule, positions)?;
        let (mut random, mut speeds) = (Random::new(SEED), Speeds::unknown(world.devices.len()));
        let (mut n_samples, mut taken, mut steps) = (0, 0, Vec::new());
        for at in 0..WARM_UP + self.n_steps {
            let step = planned.next_step();
            let stepped = run_step(&step, world, (rule, &mut speeds), cost, &mut random)?;
            if WARM_UP <= at {
                n_samples += step.batches.iter().map(|it| it.ids.len()).sum::<usize>();
                taken += step.span.end - step.span.start;
                steps.push(stepped);
            }
        }
        let mean = |of: &dyn Fn(usize) -> f64| (0..steps.len()).map(of).sum::<f64>() / steps.len() as f64;
        // The mean of a device over the steps, and that of each class over its devices.
        let used: Vec<_> = (0..world.devices.len()).map(|device| mean(&|at| steps[at].used[device])).collect();
        let of_class = |name| {
            let of: Vec<_> = world.devices.iter().zip(&used).filter(|it| it.0.name == name).map(|it| *it.1).collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        Ok(Row {
            data: self.name.to_owned(),
            n_devices: world.devices.len(),
            world: world.name,
            faster: 1.0,
            positions,
            rule,
            samples: n_samples as f64 / steps.len() as f64,
            slowest: mean(&|at| steps[at].slowest()),
            speed: taken as f64 / steps.iter().map(Stepped::slowest).sum::<f64>(),
            idle: mean(&|at| steps[at].idle()),
            used: used.iter().sum::<f64>() / used.len() as f64,
            least_used: world.devices.iter().map(|it| of_class(it.name)).fold(f64::INFINITY, f64::min),
            ratio: 1.0,
            deal: median(&steps.iter().map(|it| it.dealing.as_secs_f64()).collect::<Vec<_>>()),
        })
    }
}

/// Returns what agreeing and adding would take beside the steps of unequal devices, full and fixed.
fn clusters(exchanges: &[Exchange], rows: &[Row]) -> Vec<Cluster> {
    // Ranks that are processes are what a cluster has; where none were measured, threads.
    let host = exchanges.iter().filter(|it| it.n_ranks == 2).max_by_key(|it| it.ranks != "threads");
    let largest = host.and_then(|it| it.values.iter().max_by_key(|it| it.n_values));
    let host_per_value = largest.map_or(0.0, |it| it.sum / it.n_values as f64);
    let mut clusters = Vec::new();
    for step in rows.iter().filter(|it| it.world == "unequal" && it.rule == Rule::Speed) {
        for (network, n_values) in Network::ALL.iter().flat_map(|it| N_VALUES.map(|n_values| (it, n_values))) {
            let n = step.n_devices;
            let sum = network.sum(n, n_values, host_per_value);
            let agree = network.agree(n);
            clusters.push(Cluster {
                data: step.data.clone(),
                n_devices: n,
                faster: step.faster,
                positions: step.positions,
                network: network.name,
                n_values,
                step: step.slowest,
                agree,
                sum,
                sum_by_tree: network.sum_by_tree(n, n_values, host_per_value),
                busy: (1.0 - step.idle) * step.slowest / (step.slowest + agree + sum + step.deal),
            });
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: StepCost = StepCost { step: 1e-3, micro_batch: 5e-3, position: 7e-5 };

    fn small() -> Report {
        let lengths = (1..=4_000).map(|it| 100 + it * 7919 % 3_900).collect();
        let recorded = [Recorded { name: "generated".to_owned(), lengths }];
        let sizes = Sizes { n_samples: 20_000, n_devices: vec![8, 64], n_steps: 2, fixed: 1 << 19 };
        measure(&sizes, &recorded, COST, Vec::new(), &mut |_| ()).unwrap()
    }

    #[test]
    fn devices_that_take_as_fast_as_they_are_wait_little_and_none_is_slower_than_all_bound_by_the_smallest() {
        for rows in small().rows.chunks(Rule::ALL.len()).filter(|it| it[0].positions != 1 << 19) {
            let by_speed = &rows[3];
            // Noise, which nobody knows beforehand, is waited for.
            assert!(by_speed.idle < if by_speed.world.contains("noise") { 0.12 } else { 0.06 }, "{by_speed}");
            assert!(rows.iter().all(|it| it.ratio < by_speed.ratio + 0.05), "{by_speed}");
        }
    }

    #[test]
    fn steps_of_one_size_are_worth_dividing_up_to_where_a_share_is_a_few_samples() {
        let report = small();
        let of = |n| {
            let mut rows = report.rows.iter().filter(|it| it.positions == 1 << 19 && it.rule == Rule::Speed);
            rows.find(|it| it.n_devices == n && it.world == "unequal").unwrap()
        };
        assert!(of(8).idle < of(64).idle && of(64).slowest < of(8).slowest, "{} {}", of(8), of(64));
        assert!(report.clusters.iter().all(|it| 0.0 < it.busy && it.busy < 1.0));
    }
}
