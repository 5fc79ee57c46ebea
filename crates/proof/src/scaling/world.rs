//! Devices that take part, and samples.

use serde::Serialize;

use crate::finder::Random;

/// The part of its memory that a device may use; the default of a run.
const TARGET: f64 = 0.9;

/// Weights, gradients and moments, in GiB.
const RESIDENT: f64 = 6.0;

/// Positions that a GiB has room for: of one MiB each.
const PER_GIB: f64 = 1024.0;

/// Devices of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Class {
    /// What it is called.
    pub name: &'static str,
    /// Padded positions that a micro-batch has room for.
    pub room: u64,
    /// How fast it computes.
    pub speed: f64,
}

impl Class {
    /// A card of so much memory.
    pub const fn card(name: &'static str, gib: f64, speed: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some ten thousand positions")]
        Self { name, room: ((gib * TARGET - RESIDENT) * PER_GIB) as u64, speed }
    }
}

const LARGE: Class = Class::card("80 GB", 80.0, 1.0);
const MIDDLE: Class = Class::card("40 GB", 40.0, 0.5);
const SMALL: Class = Class::card("24 GB", 24.0, 0.3);

/// Devices that take part in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// What it is called.
    pub name: &'static str,
    /// The devices.
    pub devices: Vec<Class>,
    /// How much the times of equal devices differ: the standard deviation of their logarithms.
    pub noise: f64,
}

impl World {
    /// Returns worlds of so many devices: equal ones, unequal ones, unequal memories of one speed, and equal and unequal ones whose
    /// times vary.
    pub fn all(n_devices: usize) -> [Self; 5] {
        let of = |classes: [Class; 4]| (0..n_devices).map(|at| classes[at % 4]).collect::<Vec<_>>();
        let mixed = [LARGE, SMALL, MIDDLE, SMALL];
        let world = |name, devices, noise| Self { name, devices, noise };
        [
            world("equal", of([LARGE; 4]), 0.0),
            world("unequal", of(mixed), 0.0),
            world("unequal memory", of(mixed.map(|it| Class { speed: 1.0, ..it })), 0.0),
            world("equal, noise 3 %", of([LARGE; 4]), 0.03),
            world("unequal, noise 3 %", of(mixed), 0.03),
        ]
    }

    /// Returns two devices, one with twice the room of the other: twice as fast, and as fast.
    pub fn pairs() -> [Self; 2] {
        let class = |name, room, speed| Class { name, room, speed };
        let world = |name, speed| Self {
            name,
            devices: vec![class("whole", 32_768, 1.0), class("half", 16_384, speed)],
            noise: 0.0,
        };
        [world("1 : 2, speed too", 0.5), world("1 : 2, one speed", 1.0)]
    }
}

/// Returns the costs of many samples: lengths of these, drawn at random and padded to one of 24 edges that are as often needed.
pub fn padded(lengths: &[u32], n_samples: usize, seed: u64) -> Vec<u32> {
    const N_EDGES: usize = 24;
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let edge = |at: usize| sorted[(sorted.len() * at).div_ceil(N_EDGES).max(1) - 1].next_multiple_of(8);
    let mut edges: Vec<_> = (1..=N_EDGES).map(edge).collect();
    edges.dedup();
    let mut random = Random::new(seed);
    let n_lengths = u32::try_from(lengths.len()).unwrap_or(u32::MAX);
    let mut draw = || lengths[random.multiple(1, 0, n_lengths - 1) as usize];
    (0..n_samples).map(|_| draw()).map(|it| edges[edges.partition_point(|edge| *edge < it)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_have_room_for_what_their_memory_leaves() {
        let rooms = [LARGE, MIDDLE, SMALL].map(|it| it.room);
        assert_eq!(rooms, [66 * 1024, 30 * 1024, 15_974]);
    }

    #[test]
    fn samples_are_padded_to_few_edges_that_hold_them() {
        let lengths: Vec<_> = (1..=1_000).collect();
        let mut costs = padded(&lengths, 5_000, 3);
        assert!(costs.iter().all(|it| it % 8 == 0 && *it <= 1_000));
        costs.sort_unstable();
        costs.dedup();
        assert_eq!(costs.len(), 24);
        assert_eq!(padded(&[7], 2, 3), [8, 8]);
    }
}
