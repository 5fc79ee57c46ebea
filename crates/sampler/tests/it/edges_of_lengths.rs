//! Edges for lengths as they are found in speech and chat.

use plimsoll_sampler::edges;

use crate::common::Numbers;

const MULTIPLE: u32 = 32;

fn log_normal(seed: u64) -> Vec<u32> {
    let mut numbers = Numbers::new(seed);
    (0..20_000).map(|_| numbers.log_normal(1400.0, 0.9, 1, 100_000)).collect()
}

/// Padded positions beyond real ones, for edges that are sorted.
fn padding(lengths: &[u32], edges: &[u32]) -> f64 {
    let padded: u64 = lengths.iter().map(|it| u64::from(edges[edges.partition_point(|edge| edge < it)])).sum();
    padded as f64 / lengths.iter().map(|it| u64::from(*it)).sum::<u64>() as f64 - 1.0
}

fn equal_mass(lengths: &[u32], k: usize) -> Vec<u32> {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    (1..=k).map(|edge| sorted[edge * sorted.len() / k - 1].next_multiple_of(MULTIPLE)).collect()
}

fn geometric(lengths: &[u32], k: u32) -> Vec<u32> {
    let (least, most) = (lengths.iter().min(), lengths.iter().max());
    let (least, most) = (least.map_or(1.0, |it| f64::from(*it)), most.map_or(1.0, |it| f64::from(*it)));
    let edge = |step: u32| least * (most / least).powf(f64::from(step) / f64::from(k));
    (1..=k).map(|step| ceil(edge(step) - 1e-6).next_multiple_of(MULTIPLE)).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "edges are positive and far below 2^32")]
fn ceil(edge: f64) -> u32 {
    edge.ceil() as u32
}

#[test]
fn chosen_edges_pad_much_less_than_edges_of_equal_mass_or_of_equal_ratio() {
    for seed in 0..3 {
        let lengths = log_normal(seed);
        for k in [8, 16, 32] {
            let chosen = edges(&lengths, k, MULTIPLE).unwrap();
            let mass = padding(&lengths, &equal_mass(&lengths, k as usize));
            let ratio = padding(&lengths, &geometric(&lengths, k));
            assert!((padding(&lengths, &chosen.edges) - chosen.padding).abs() < 1e-12);
            assert!(chosen.padding < 0.75 * mass.min(ratio), "{} is not below {mass} and {ratio}", chosen.padding);
        }
    }
}
